# ruff: noqa: B905
"""Answers that are wrong in the way a learner is wrong, each with what the check must say about it.

They are written by hand and share nothing with the checker. Helpers come from the solution, so that one function is
wrong at a time.
"""

import itertools
import math
import random
from dataclasses import dataclass

import numpy as np

from labkit.lab import solution as lab

INF = float("inf")


@dataclass(frozen=True)
class Mutant:
    """A wrong answer to an exercise, and a part of the diagnosis that it must get; `arrays` if it takes only arrays."""

    exercise: str
    name: str
    answer: object
    diagnosis: str
    arrays: bool


MUTANTS = []


def mutant(exercise, diagnosis, arrays=False):
    """Register the function below as a wrong answer."""

    def keep(answer):
        MUTANTS.append(Mutant(exercise, answer.__name__, answer, diagnosis, arrays))
        return answer

    return keep


# ------------------------------------------------------------------------------------------------- linear algebra


@mutant("matmul", "b is transposed")
def rows_by_rows(a, b):
    if len(a[0]) != len(b):
        raise ValueError("sizes")
    if any(len(row) != len(b[0]) for row in b) or any(len(row) != len(a[0]) for row in a):
        raise ValueError("ragged")
    result = []
    for row in a:
        result.append([])
        for other in b:
            result[-1].append(sum(x * y for x, y in zip(row, other)))
    return result


@mutant("matmul", "every row of the result is one and the same list")
def shared_rows(a, b):
    lab.matmul(a, b)
    result = [[0.0] * len(b[0])] * len(a)
    for i in range(len(a)):
        for j in range(len(b[0])):
            result[i][j] = sum(a[i][k] * b[k][j] for k in range(len(b)))
    return result


@mutant("matmul", "only the last product is kept")
def sum_forgotten(a, b):
    lab.matmul(a, b)
    result = [[0.0 for _ in b[0]] for _ in a]
    for i in range(len(a)):
        for j in range(len(b[0])):
            for k in range(len(b)):
                result[i][j] = a[i][k] * b[k][j]
    return result


@mutant("matmul", "nothing is checked")
def zip_hides_everything(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


@mutant("matmul", "the rows of b may differ in length")
def right_side_unchecked(a, b):
    if len(a[0]) != len(b) or any(len(row) != len(a[0]) for row in a):
        raise ValueError("sizes")
    return [[sum(row[k] * b[k][j] for k in range(len(b))) for j in range(min(len(r) for r in b))] for row in a]


@mutant("matmul", "it multiplies entry by entry")
def star_product(a, b):
    return (np.array(a) * np.array(b)).tolist()


@mutant("transpose", "the matrix comes back as it was")
def copied(a):
    lab.transpose(a)
    return [row[:] for row in a]


@mutant("transpose", "ragged rows are let through")
def zip_stops_early(a):
    return [list(column) for column in zip(*a)]


@mutant("transpose", "quarter")
def turned(a):
    if len({len(row) for row in a}) > 1:
        raise ValueError("ragged")
    return [[a[i][j] for i in range(len(a))] for j in reversed(range(len(a[0])))]


@mutant("transpose", "it returns a zip object")
def lazy(a):
    lab.transpose(a)
    return zip(*a)


@mutant("transpose", "it stops with IndexError")
def loops_swapped(a):
    n, m = len(a), len(a[0])
    return [[a[j][i] for j in range(m)] for i in range(n)]


@mutant("add_vectors", "the lists are joined")
def plus(a, b):
    return a + b


@mutant("add_vectors", "the lengths are not compared")
def zipped(a, b):
    return [x + y for x, y in zip(a, b)]


@mutant("add_vectors", "it changes its argument a")
def in_place(a, b):
    if len(a) != len(b):
        raise ValueError("lengths")
    for i in range(len(a)):
        a[i] += b[i]
    return a


@mutant("add_vectors", "the second vector is longer")
def wrong_exception(a, b):
    assert len(a) == len(b)
    return [x + y for x, y in zip(a, b)]


@mutant("add_matrices", "the rows are put below each other")
def stacked(a, b):
    return a + b


@mutant("add_matrices", "the lengths of the rows are not compared")
def only_rows_counted(a, b):
    if len(a) != len(b):
        raise ValueError("rows")
    return [[x + y for x, y in zip(row, line)] for row, line in zip(a, b)]


@mutant("add_matrices", "the number of rows is not compared")
def only_columns_counted(a, b):
    return [lab.add_vectors(row, line) for row, line in zip(a, b)]


@mutant("add_matrices", "it changes its argument a")
def stream_overwritten(a, b):
    lab.add_matrices(a, b)
    for i, row in enumerate(b):
        for j, value in enumerate(row):
            a[i][j] += value
    return a


@mutant("add_matrices", "a single row is added to all rows")
def broadcast(a, b):
    return np.add(np.array(a), np.array(b)).tolist()


# ---------------------------------------------------------------------------------------- softmax and its relatives


@mutant("softmax", "the maximum is not subtracted")
def straight_exponentials(x):
    e = [math.exp(score) for score in x]
    total = sum(e)
    if total == 0 and max(x) == -INF:
        return [0.0] * len(x)
    return [value / total for value in e]


@mutant("softmax", "large scores overflow: the maximum is not subtracted")
def straight_exponentials_in_numpy(x):
    e = np.exp(np.asarray(x))
    total = e.sum()
    return e / total if total > 0 or np.max(x) > -INF else e


@mutant("softmax", "the exponentials are not divided by their sum")
def unnormalised(x):
    top = max(x)
    return [math.exp(score - top) if score > -INF else 0.0 for score in x]


@mutant("softmax", "a row of nothing but −inf gives NaN")
def blind_to_masked_rows(x):
    x = np.asarray(x)
    e = np.exp(x - x.max())
    return e / e.sum()


@mutant("softmax", "a row of nothing but −inf is shared out evenly")
def masked_row_shared_out(x):
    top = max(max(x), -1e30)
    e = [math.exp(max(score, -1e30) - top) for score in x]
    return [value / sum(e) for value in e]


@mutant("softmax", "the minimum is subtracted")
def wrong_end(x):
    if max(x) == -INF:
        return [0.0 for _ in x]
    low = min(score for score in x if score > -INF)
    e = [math.exp(score - low) for score in x]
    return [value / sum(e) for value in e]


@mutant("softmax", "the base is 2")
def powers_of_two(x):
    if max(x) == -INF:
        return [0.0 for _ in x]
    e = [2 ** (score - max(x)) for score in x]
    return [value / sum(e) for value in e]


@mutant("softmax", "divided by their number")
def divided_by_n(x):
    if max(x) == -INF:
        return [0.0 for _ in x]
    return [math.exp(score - max(x)) / len(x) for score in x]


@mutant("softmax", "it changes its argument x")
def shifts_in_place(x):
    top = max(x)
    for i in range(len(x)):
        x[i] = math.exp(x[i] - top) if top > -INF else 0.0
    total = sum(x) or 1.0
    return [value / total for value in x]


@mutant("softmax", "single precision")
def half_the_digits(x):
    return np.asarray(lab.softmax(list(x)), dtype=np.float32)


@mutant("softmax", "it does not come back")
def never_converges(x):
    total = 0.0
    while total != 1.0:
        total = sum(x)
    return x


@mutant("log_softmax", "it takes the logarithm of the finished weights")
def log_of_softmax(x):
    return [math.log(weight) if weight > 0 else -INF for weight in lab.softmax(x)]


@mutant("log_softmax", "the maximum is not subtracted")
def log_sum_exp_unguarded(x):
    log_total = math.log(sum(math.exp(score) for score in x))
    return [score - log_total for score in x]


@mutant("log_softmax", "to base 10")
def common_logarithm(x):
    x = np.asarray(x)
    shifted = x - np.max(x)
    return shifted - np.log10(np.exp(shifted).sum())


@mutant("log_softmax", "not put back")
def maximum_lost(x):
    top = max(x)
    return [score - math.log(sum(math.exp(other - top) for other in x)) for score in x]


@mutant("entropy", "it is in bits")
def bits(p):
    return -sum(w * math.log2(w) for w in p if w > 0)


@mutant("entropy", "a weight of 0 stops it")
def log_of_zero(p):
    p = np.asarray(p)
    return float(-(p * np.log(p)).sum())


@mutant("entropy", "the minus sign is missing")
def negative(p):
    return sum(w * math.log(w) for w in p if w)


@mutant("entropy", "it averages over the entries")
def mean_in_place_of_sum(p):
    p = np.asarray(p)
    return -np.mean(p * np.log(np.where(p > 0, p, 1)))


@mutant("softmax_jacobian", "only the diagonal is filled")
def diagonal_only(p):
    return np.diag(np.asarray(p) * (1 - np.asarray(p)))


@mutant("softmax_jacobian", "the diagonal lacks its −p_i²")
def diagonal_without_square(p):
    return [[p[i] if i == j else -p[i] * p[j] for j in range(len(p))] for i in range(len(p))]


@mutant("softmax_jacobian", "off the diagonal the sign is wrong")
def all_positive(p):
    return [[p[i] * (1 - p[i]) if i == j else p[i] * p[j] for j in range(len(p))] for i in range(len(p))]


@mutant("softmax_jacobian", "every sign is turned round")
def outer_minus_diagonal(p):
    p = np.asarray(p)
    return np.outer(p, p) - np.diag(p)


@mutant("cross_entropy", "it takes the logarithm of a finished weight")
def log_of_zero_weight(logits, target):
    return -math.log(lab.softmax(logits)[target])


@mutant("cross_entropy", "the minus sign is missing")
def gain(logits, target):
    return -lab.cross_entropy(logits, target)


@mutant("cross_entropy", "count from 1")
def previous_target(logits, target):
    return lab.cross_entropy(logits, target - 1)


@mutant("cross_entropy", "it is in bits")
def bits_of_loss(logits, target):
    return lab.cross_entropy(logits, target) / math.log(2)


@mutant("cross_entropy", "it returns the weight")
def probability(logits, target):
    return lab.softmax(logits)[target]


# ------------------------------------------------------------------------------------------------------------ norms


@mutant("layer_norm", "divided by n − 1")
def bessel(x, weight, bias, eps=1e-5):
    x = np.asarray(x, dtype=float)
    return (x - x.mean()) / np.sqrt(x.var(ddof=1) + eps) * np.asarray(weight) + np.asarray(bias)


@mutant("layer_norm", "ε is outside the root")
def epsilon_on_the_deviation(x, weight, bias, eps=1e-5):
    mean = sum(x) / len(x)
    std = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))
    return [(v - mean) / (std + eps) * w + b for v, w, b in zip(x, weight, bias)]


@mutant("layer_norm", "the argument eps is not used")
def epsilon_built_in(x, weight, bias, eps=1e-5):
    return lab.layer_norm(x, weight, bias, 1e-5)


@mutant("layer_norm", "loses its digits when the mean is large")
def one_pass(x, weight, bias, eps=1e-5):
    n = len(x)
    mean = sum(x) / n
    variance = sum(v * v for v in x) / n - mean * mean
    return [(v - mean) / math.sqrt(max(variance, 0.0) + eps) * w + b for v, w, b in zip(x, weight, bias)]


@mutant("layer_norm", "the bias is left out")
def no_shift(x, weight, bias, eps=1e-5):
    return lab.layer_norm(x, weight, [0.0] * len(x), eps)


@mutant("layer_norm", "it divides by the variance")
def root_forgotten(x, weight, bias, eps=1e-5):
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / (variance + eps) * w + b for v, w, b in zip(x, weight, bias)]


@mutant("rms_norm", "ε is outside the root")
def epsilon_on_the_rms(x, weight, eps=1e-5):
    rms = math.sqrt(sum(v * v for v in x) / len(x))
    return [v / (rms + eps) * w for v, w in zip(x, weight)]


@mutant("rms_norm", "the mean is subtracted")
def layer_norm_in_disguise(x, weight, eps=1e-5):
    return lab.layer_norm(x, weight, [0.0] * len(x), eps)


@mutant("rms_norm", "not their sum")
def length(x, weight, eps=1e-5):
    divisor = math.sqrt(sum(v * v for v in x) + eps)
    return [v / divisor * w for v, w in zip(x, weight)]


@mutant("rms_norm", "the weight is left out")
def unweighted(x, weight, eps=1e-5):
    return lab.rms_norm(x, [1.0] * len(x), eps)


@mutant("rms_norm", "ε is left out")
def no_epsilon(x, weight, eps=1e-5):
    x = np.asarray(x, dtype=float)
    return x / np.sqrt((x * x).mean()) * np.asarray(weight)


@mutant("linear", "w is applied transposed")
def stored_out_by_in(x, w, b=None):
    y = (np.asarray(x) @ np.asarray(w).T).tolist()
    return y if b is None else [lab.add_vectors(row, b) for row in y]


@mutant("linear", "the bias is left out")
def no_bias(x, w, b=None):
    return lab.linear(x, w)


@mutant("linear", "the bias is added to the first row only")
def first_row_bias(x, w, b=None):
    y = lab.matmul(x, w)
    if b is not None:
        y[0] = lab.add_vectors(y[0], b)
    return y


@mutant("linear", "the length of the bias is not compared")
def bias_zipped(x, w, b=None):
    y = lab.matmul(x, w)
    return y if b is None else [[v + c for v, c in zip(row, b)] for row in y]


# -------------------------------------------------------------------------------------------------------- attention


@mutant("causal_mask", "off by one: the diagonal is masked out")
def blind_to_itself(T):
    return [[0.0 if j < i else -INF for j in range(T)] for i in range(T)]


@mutant("causal_mask", "off by one: each position sees the one after it")
def peeks_one_ahead(T):
    mask = [[0.0] * T for _ in range(T)]
    for i in range(T):
        for j in range(i + 2, T):
            mask[i][j] = -INF
    return mask


@mutant("causal_mask", "it is transposed")
def sees_the_future(T):
    return np.tril(np.full((T, T), -INF), k=-1).tolist() if T > 1 else [[0.0]]


@mutant("causal_mask", "a large finite number")
def minus_a_billion(T):
    return [[0.0 if j <= i else -1e9 for j in range(T)] for i in range(T)]


@mutant("causal_mask", "True and False")
def booleans(T):
    return [[j <= i for j in range(T)] for i in range(T)]


@mutant("causal_mask", "every row is one and the same list")
def aliased_rows(T):
    mask = [[0.0] * T] * T
    for i in range(T):
        for j in range(i + 1, T):
            mask[i][j] = -INF
    return mask


@mutant("causal_mask_rectangular", "aligned at the top left")
def top_left(T, S):
    return np.tril(np.ones((T, S), dtype=bool))


@mutant("causal_mask_rectangular", "the last query must see the last key")
def misses_itself(T, S):
    return np.tril(np.ones((T, S), dtype=bool), k=S - T - 1)


@mutant("causal_mask_rectangular", "rows and columns have changed places")
def keys_down(T, S):
    return np.tril(np.ones((T, S), dtype=bool), k=S - T).T


@mutant("causal_mask_rectangular", "True and False have changed places")
def true_means_hidden(T, S):
    return ~np.tril(np.ones((T, S), dtype=bool), k=S - T)


def _attend(q, k, v, mask=None, scale=None):
    scale = len(q[0]) ** -0.5 if scale is None else scale
    scores = [[scale * sum(a * b for a, b in zip(row, key)) for key in k] for row in q]
    if mask is not None:
        scores = [[s + m for s, m in zip(row, line)] for row, line in zip(scores, mask)]
    return lab.matmul([lab.softmax(row) for row in scores], v)


@mutant("scaled_dot_product_attention", "the scores are not divided by √d_k")
def no_scale(q, k, v, mask=None):
    return _attend(q, k, v, mask, scale=1.0)


@mutant("scaled_dot_product_attention", "the scores are divided by d_k")
def scale_without_root(q, k, v, mask=None):
    return _attend(q, k, v, mask, scale=1 / len(q[0]))


@mutant("scaled_dot_product_attention", "the softmax runs over the queries")
def softmax_down_the_columns(q, k, v, mask=None):
    q, k, v = np.array(q), np.array(k), np.array(v)
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + np.array(mask)
    top = scores.max(axis=0)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=0)
    return e / np.where(total == 0, 1, total) @ v


@mutant("scaled_dot_product_attention", "the mask is left out")
def mask_ignored(q, k, v, mask=None):
    return _attend(q, k, v)


@mutant("scaled_dot_product_attention", "the mask is transposed")
def mask_turned(q, k, v, mask=None):
    return _attend(q, k, v, None if mask is None else [list(column) for column in zip(*mask)])


@mutant("scaled_dot_product_attention", "the mask is applied after the softmax")
def masked_too_late(q, k, v, mask=None):
    scores = lab.matmul(q, lab.transpose(k))
    weights = [lab.softmax([s / math.sqrt(len(q[0])) for s in row]) for row in scores]
    if mask is not None:
        weights = [[w if m == 0 else 0.0 for w, m in zip(row, line)] for row, line in zip(weights, mask)]
    return lab.matmul(weights, v)


@mutant("scaled_dot_product_attention", "a large finite number")
def finite_fill(q, k, v, mask=None):
    scores = np.array(q) @ np.array(k).T / len(q[0]) ** 0.5
    if mask is not None:
        scores = np.where(np.isinf(np.array(mask)), -1e9, scores)
    weights = [lab.softmax(list(row)) for row in scores]
    if mask is not None:
        hidden = np.isinf(np.array(mask)).all(axis=1)
        weights = [[0.0] * len(row) if h else row for row, h in zip(weights, hidden)]
    return np.array(weights) @ np.array(v)


@mutant("scaled_dot_product_attention", "gets NaN")
def fully_masked_nan(q, k, v, mask=None):
    q, k, v = np.array(q), np.array(k), np.array(v)
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + np.array(mask)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


@mutant("scaled_dot_product_attention", "it returns the weights")
def weights_only(q, k, v, mask=None):
    return _attend(q, k, [[float(i == j) for j in range(len(k))] for i in range(len(k))], mask)


@mutant("scaled_dot_product_attention", "√d_k")
def keys_counted_for_width(q, k, v, mask=None):
    return _attend(q, k, v, mask, scale=1 / math.sqrt(len(q)))


@mutant("_split_heads", "a head takes every n-th column")
def strided(x, n_heads):
    lab._split_heads(x, n_heads)
    return [[row[h::n_heads] for row in x] for h in range(n_heads)]


@mutant("_split_heads", "[n_heads, T, d_head] is asked for")
def reshaped_without_transposing(x, n_heads):
    x = np.array(x)
    return x.reshape(len(x), n_heads, -1)


@mutant("_split_heads", "columns that are left over are dropped")
def rounded_down(x, n_heads):
    d = len(x[0]) // n_heads
    return [[row[h * d : h * d + d] for row in x] for h in range(n_heads)]


@mutant("_split_heads", "n_heads is taken for d_head")
def slices_of_n_heads(x, n_heads):
    lab._split_heads(x, n_heads)
    return [[row[i : i + n_heads] for row in x] for i in range(0, len(x[0]), n_heads)]


@mutant("_concat_heads", "put below each other")
def heads_stacked(heads):
    return list(itertools.chain.from_iterable(heads))


@mutant("_concat_heads", "shuffled into each other")
def heads_interleaved(heads):
    return [[head[t][j] for j in range(len(heads[0][0])) for head in heads] for t in range(len(heads[0]))]


@mutant("_concat_heads", "added up")
def heads_summed(heads):
    return np.sum(heads, axis=0)


@mutant("_concat_heads", "it changes its argument heads")
def first_head_extended(heads):
    for other in heads[1:]:
        for row, more in zip(heads[0], other):
            row.extend(more)
    return heads[0]


@mutant("multi_head_attention", "w_o is missing")
def no_output_projection(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (lab._split_heads(lab.linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    return lab._concat_heads([_attend(q[h], k[h], v[h], mask) for h in range(n_heads)])


@mutant("multi_head_attention", "the heads are not split")
def one_wide_head(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if len(x[0]) % n_heads:
        raise ValueError("heads")
    q, k, v = (lab.linear(x, w) for w in (w_q, w_k, w_v))
    return lab.linear(_attend(q, k, v, mask), w_o)


@mutant("multi_head_attention", "scaled by √d_model")
def scale_of_the_whole(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (lab._split_heads(lab.linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    scale = 1 / math.sqrt(len(x[0]))
    return lab.linear(lab._concat_heads([_attend(a, b, c, mask, scale) for a, b, c in zip(q, k, v)]), w_o)


@mutant("multi_head_attention", "the mask does not reach the heads")
def mask_lost_on_the_way(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return lab.multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads)


@mutant("multi_head_attention", "the values are projected with w_k")
def copy_and_paste(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return lab.multi_head_attention(x, w_q, w_k, w_k, w_o, n_heads, mask)


@mutant("multi_head_attention", "a head takes every n-th column")
def heads_by_reshape(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    lab._split_heads(x, n_heads)
    q, k, v = (strided(lab.linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    return lab.linear(lab._concat_heads([_attend(q[h], k[h], v[h], mask) for h in range(n_heads)]), w_o)


# -------------------------------------------------------------------------------------------------------- positions


@mutant("_rope_vector", "nothing is rotated")
def identity(x, pos, base=10000.0):
    if len(x) % 2:
        raise ValueError("odd")
    return list(x)


@mutant("_rope_vector", "the pairs are (i, i + d/2)")
def half_split(x, pos, base=10000.0):
    d = len(x)
    if d % 2:
        raise ValueError("odd")
    half = d // 2
    angles = [pos / base ** (2 * i / d) for i in range(half)]
    left = [x[i] * math.cos(a) - x[i + half] * math.sin(a) for i, a in enumerate(angles)]
    right = [x[i + half] * math.cos(a) + x[i] * math.sin(a) for i, a in enumerate(angles)]
    return left + right


@mutant("_rope_vector", "it rotates the other way")
def backwards(x, pos, base=10000.0):
    return lab._rope_vector(x, -pos, base)


@mutant("_rope_vector", "every pair turns at the same speed")
def one_frequency(x, pos, base=10000.0):
    if len(x) % 2:
        raise ValueError("odd")
    c, s = math.cos(pos), math.sin(pos)
    pairs = [(x[i] * c - x[i + 1] * s, x[i] * s + x[i + 1] * c) for i in range(0, len(x), 2)]
    return [value for pair in pairs for value in pair]


@mutant("_rope_vector", "a 2 too many")
def frequency_squared(x, pos, base=10000.0):
    if len(x) % 2:
        raise ValueError("odd")
    y = [0.0] * len(x)
    for i in range(0, len(x), 2):
        angle = pos * base ** (-2 * i / len(x))  # i already steps by two
        y[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
        y[i + 1] = x[i] * math.sin(angle) + x[i + 1] * math.cos(angle)
    return y


@mutant("_rope_vector", "keep the old value")
def overwritten_too_soon(x, pos, base=10000.0):
    if len(x) % 2:
        raise ValueError("odd")
    y = list(x)
    for i in range(len(x) // 2):
        angle = pos * base ** (-2 * i / len(x))
        y[2 * i] = y[2 * i] * math.cos(angle) - y[2 * i + 1] * math.sin(angle)
        y[2 * i + 1] = y[2 * i] * math.sin(angle) + y[2 * i + 1] * math.cos(angle)
    return y


@mutant("_rope_vector", "positions count from 1")
def counts_from_one(x, pos, base=10000.0):
    return lab._rope_vector(x, pos + 1, base)


@mutant("_rope_vector", "it changes its argument x")
def rotates_in_place(x, pos, base=10000.0):
    x[:] = lab._rope_vector(x, pos, base)
    return x


@mutant("rope", "counted from 0 whatever `positions` says")
def positions_ignored(x, positions, base=10000.0):
    lab.rope(x, positions)
    return [lab._rope_vector(row, t, base) for t, row in enumerate(x)]


@mutant("rope", "a missing or spare position is let through")
def zip_drops_rows(x, positions, base=10000.0):
    return [lab._rope_vector(row, pos, base) for row, pos in zip(x, positions)]


@mutant("rope", "the base is not handed on")
def base_dropped(x, positions, base=10000.0):
    return lab.rope(x, positions)


@mutant("rope", "the pairs are (i, i + d/2)")
def rope_half_split(x, positions, base=10000.0):
    lab.rope(x, positions)
    return [half_split(row, pos, base) for row, pos in zip(x, positions)]


def _rope_attention(x, w_q, w_k, w_v, w_o, n_heads, positions, mask, turn_q=True, turn_k=True, turn_v=False):
    q, k, v = (lab._split_heads(lab.linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    q = [lab.rope(head, positions) for head in q] if turn_q else q
    k = [lab.rope(head, positions) for head in k] if turn_k else k
    v = [lab.rope(head, positions) for head in v] if turn_v else v
    return lab.linear(lab._concat_heads([_attend(q[h], k[h], v[h], mask) for h in range(n_heads)]), w_o)


@mutant("rope_multi_head_attention", "the values are rotated, too")
def values_rotated(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    return _rope_attention(x, w_q, w_k, w_v, w_o, n_heads, positions, mask, turn_v=True)


@mutant("rope_multi_head_attention", "only the queries are rotated")
def keys_forgotten(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    return _rope_attention(x, w_q, w_k, w_v, w_o, n_heads, positions, mask, turn_k=False)


@mutant("rope_multi_head_attention", "x is rotated, before the projections")
def stream_rotated(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    return lab.multi_head_attention(lab.rope(x, positions), w_q, w_k, w_v, w_o, n_heads, mask)


@mutant("rope_multi_head_attention", "before the split into heads")
def rotated_before_the_split(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    q, k = (lab._split_heads(lab.rope(lab.linear(x, w), positions), n_heads) for w in (w_q, w_k))
    v = lab._split_heads(lab.linear(x, w_v), n_heads)
    return lab.linear(lab._concat_heads([_attend(q[h], k[h], v[h], mask) for h in range(n_heads)]), w_o)


@mutant("rope_multi_head_attention", "counted from 0 whatever `positions` says")
def positions_recounted(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    return _rope_attention(x, w_q, w_k, w_v, w_o, n_heads, list(range(len(x))), mask)


# ----------------------------------------------------------------------------------------------------- feed-forward


@mutant("gelu", "the erf form")
def exact_gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


@mutant("gelu", "the sigmoid form")
def quick_gelu(x):
    return x / (1 + math.exp(-1.702 * x))


@mutant("gelu", "factor is not 0.044715")
def misplaced_point(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.44715 * x**3)))


@mutant("gelu", "the factor ½ is missing")
def twice(x):
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@mutant("gelu", "this is ReLU")
def relu(x):
    return x if x > 0 else 0.0


@mutant("_silu", "exp(−z) overflows")
def naive_sigmoid(z):
    return z * (1 / (1 + math.exp(-z)))


@mutant("_silu", "this is the sigmoid")
def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z > -700 else 0.0


@mutant("_silu", "the sign in the exponent is wrong")
def falling(z):
    return z / (1 + math.exp(z)) if z < 700 else 0.0


@mutant("_silu", "this is GELU")
def gelu_for_silu(z):
    return lab.gelu(z)


@mutant("swiglu_ffn", "gate and up have changed places")
def roles_swapped(x, w_gate, w_up, w_down):
    gate, up = lab.linear(x, w_gate), lab.linear(x, w_up)
    return lab.linear([[g * lab._silu(u) for g, u in zip(a, b)] for a, b in zip(gate, up)], w_down)


@mutant("swiglu_ffn", "gate and up are added")
def added(x, w_gate, w_up, w_down):
    gate = [[lab._silu(v) for v in row] for row in lab.linear(x, w_gate)]
    return lab.linear(lab.add_matrices(gate, lab.linear(x, w_up)), w_down)


@mutant("swiglu_ffn", "SiLU is missing")
def bilinear(x, w_gate, w_up, w_down):
    return (np.array(x) @ np.array(w_gate) * (np.array(x) @ np.array(w_up))) @ np.array(w_down)


@mutant("swiglu_ffn", "the up projection is missing")
def plain_mlp(x, w_gate, w_up, w_down):
    return lab.linear([[lab._silu(v) for v in row] for row in lab.linear(x, w_gate)], w_down)


@mutant("swiglu_ffn", "SiLU is on the product")
def gated_afterwards(x, w_gate, w_up, w_down):
    gate, up = lab.linear(x, w_gate), lab.linear(x, w_up)
    return lab.linear([[lab._silu(g * u) for g, u in zip(a, b)] for a, b in zip(gate, up)], w_down)


# ------------------------------------------------------------------------------------------------- block and model


def _sublayers(block, mask):
    weights = (block["w_q"], block["w_k"], block["w_v"], block["w_o"], block["n_heads"])
    return (
        lambda x: lab.multi_head_attention(x, *weights, mask),
        lambda x: lab.swiglu_ffn(x, block["w_gate"], block["w_up"], block["w_down"]),
        lambda x: [lab.rms_norm(row, block["norm1_w"]) for row in x],
        lambda x: [lab.rms_norm(row, block["norm2_w"]) for row in x],
    )


@mutant("transformer_block", "the first residual add starts from norm(x)")
def highway_normalised(x, block, mask=None):
    attend, ffn, norm1, norm2 = _sublayers(block, mask)
    n1 = norm1(x)
    x = lab.add_matrices(n1, attend(n1))
    return lab.add_matrices(x, ffn(norm2(x)))


@mutant("transformer_block", "that is post-norm")
def post_norm(x, block, mask=None):
    attend, ffn, norm1, norm2 = _sublayers(block, mask)
    x = norm1(lab.add_matrices(x, attend(x)))
    return norm2(lab.add_matrices(x, ffn(x)))


@mutant("transformer_block", "the second residual add is missing")
def replaced(x, block, mask=None):
    attend, ffn, norm1, norm2 = _sublayers(block, mask)
    x = lab.add_matrices(x, attend(norm1(x)))
    return ffn(norm2(x))


@mutant("transformer_block", "the second half reads the old x")
def parallel(x, block, mask=None):
    attend, ffn, norm1, norm2 = _sublayers(block, mask)
    return lab.add_matrices(lab.add_matrices(x, attend(norm1(x))), ffn(norm2(x)))


@mutant("transformer_block", "the attention's correction is lost")
def old_x_again(x, block, mask=None):
    attend, ffn, norm1, norm2 = _sublayers(block, mask)
    y = lab.add_matrices(x, attend(norm1(x)))
    return lab.add_matrices(x, ffn(norm2(y)))


@mutant("transformer_block", "the mask does not reach the attention")
def unmasked_block(x, block, mask=None):
    return lab.transformer_block(x, block)


@mutant("transformer_block", "norm1_w is used twice")
def same_norm_twice(x, block, mask=None):
    return lab.transformer_block(x, {**block, "norm2_w": block["norm1_w"]}, mask)


@mutant("transformer_block", "it changes its argument x")
def block_in_place(x, block, mask=None):
    y = lab.transformer_block(x, block, mask)
    for row, new in zip(x, y):
        row[:] = new
    return x


@mutant("build_params", "the seed is not used")
def seed_ignored(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    return lab.build_params(vocab_size, d_model, n_heads, n_layers, d_ff)


@mutant("build_params", "it seeds the generator that everyone shares")
def global_seed(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    random.seed(seed)
    return lab.build_params(vocab_size, d_model, n_heads, n_layers, d_ff, random.randrange(10**9))


@mutant("build_params", "the weights differ from call to call")
def unseeded(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    return lab.build_params(vocab_size, d_model, n_heads, n_layers, d_ff, random.Random().random())


@mutant("build_params", "all blocks share one set of weights")
def one_block_repeated(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    params = lab.build_params(vocab_size, d_model, n_heads, 1, d_ff, seed)
    return {**params, "blocks": params["blocks"] * n_layers}


@mutant("build_params", "w_down is [d_ff, d_model]")
def down_is_up(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    params = lab.build_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed)
    for block in params["blocks"]:
        block["w_down"] = lab.transpose(block["w_down"])
    return params


@mutant("build_params", "all weights are zero")
def zeros(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    def matrix(rows, columns):
        return [[0.0] * columns for _ in range(rows)]

    params = lab.build_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed)
    for block in params["blocks"]:
        for name in ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down"):
            block[name] = matrix(len(block[name]), len(block[name][0]))
    return {**params, "embed": matrix(vocab_size, d_model), "lm_head": matrix(d_model, vocab_size)}


def _forward(ids, params, positions=None, mask=None, blocks=None, last=None):
    vocab_size = len(params["embed"])
    if not ids or min(ids) < 0 or max(ids) >= vocab_size:
        raise ValueError("token_ids")
    x = [params["embed"][token] for token in ids]
    x = lab.rope(x, positions if positions is not None else list(range(len(x))))
    for block in params["blocks"] if blocks is None else blocks:
        x = lab.transformer_block(x, block, lab.causal_mask(len(x)) if mask is None else mask)
    x = [lab.rms_norm(row, params["final_norm_w"]) for row in x] if last is None else x
    return lab.linear(x, params["lm_head"])


@mutant("gpt_forward", "positions are missing")
def orderless(token_ids, params):
    return _forward(token_ids, params, positions=[0] * len(token_ids))


@mutant("gpt_forward", "the causal mask is missing")
def clairvoyant(token_ids, params):
    return _forward(token_ids, params, mask=[[0.0] * len(token_ids) for _ in token_ids])


@mutant("gpt_forward", "the final norm is missing")
def unnormed_head(token_ids, params):
    return _forward(token_ids, params, last="as it is")


@mutant("gpt_forward", "the first block is used every time")
def same_block(token_ids, params):
    return _forward(token_ids, params, blocks=params["blocks"][:1] * len(params["blocks"]))


@mutant("gpt_forward", "positions count from 1")
def first_is_one(token_ids, params):
    return _forward(token_ids, params, positions=list(range(1, len(token_ids) + 1)))


@mutant("gpt_forward", "it returns weights")
def probabilities(token_ids, params):
    return [lab.softmax(row) for row in _forward(token_ids, params)]


@mutant("gpt_forward", "a negative one silently takes a row from the end")
def python_indexing(token_ids, params):
    if len(token_ids) == 0:
        raise ValueError("empty")
    if max(token_ids) >= len(params["embed"]):
        raise ValueError("too large")
    return _forward([token % len(params["embed"]) for token in token_ids], params)


# ------------------------------------------------------------------------------------------------------------ cache


@mutant("attention_with_kv_cache", "the new token is not among those attended to")
def forgets_itself(q_new, k_new, v_new, cache_k, cache_v):
    context = _attend([q_new], cache_k, cache_v)[0] if len(cache_k) else [0.0] * len(v_new)
    return context, [*cache_k, k_new], [*cache_v, v_new]


@mutant("attention_with_kv_cache", "the oldest row is dropped")
def forgets_a_step(q_new, k_new, v_new, cache_k, cache_v):
    keys, values = [*cache_k[1:], k_new], [*cache_v[1:], v_new]
    return _attend([q_new], keys, values)[0], keys, values


@mutant("attention_with_kv_cache", "it changes its argument cache_k")
def appends_in_place(q_new, k_new, v_new, cache_k, cache_v):
    cache_k.append(k_new)
    cache_v.append(v_new)
    return _attend([q_new], cache_k, cache_v)[0], cache_k, cache_v


@mutant("attention_with_kv_cache", "the caches come back as they were")
def never_grows(q_new, k_new, v_new, cache_k, cache_v):
    return _attend([q_new], [*cache_k, k_new], [*cache_v, v_new])[0], cache_k, cache_v


@mutant("attention_with_kv_cache", "at the front")
def prepends(q_new, k_new, v_new, cache_k, cache_v):
    keys, values = [k_new, *cache_k], [v_new, *cache_v]
    return _attend([q_new], keys, values)[0], keys, values


@mutant("attention_with_kv_cache", "the context is a matrix of one row")
def matrix_of_one_row(q_new, k_new, v_new, cache_k, cache_v):
    context, keys, values = lab.attention_with_kv_cache(q_new, k_new, v_new, cache_k, cache_v)
    return [context], keys, values


@mutant("attention_with_kv_cache", "√d_k")
def cache_without_scale(q_new, k_new, v_new, cache_k, cache_v):
    keys, values = [*cache_k, k_new], [*cache_v, v_new]
    return _attend([q_new], keys, values, scale=1.0)[0], keys, values


@mutant("grouped_query_attention", "tiled")
def tiled_heads(q_heads, k_heads, v_heads, mask=None):
    if len(q_heads) % len(k_heads):
        raise ValueError("heads")
    k_heads = k_heads * (len(q_heads) // len(k_heads))
    v_heads = v_heads * (len(q_heads) // len(v_heads))
    return [_attend(q, k, v, mask) for q, k, v in zip(q_heads, k_heads, v_heads)]


@mutant("grouped_query_attention", "every query head uses key/value head 0")
def all_share_the_first(q_heads, k_heads, v_heads, mask=None):
    lab.grouped_query_attention(q_heads, k_heads, v_heads)
    return [_attend(q, k_heads[0], v_heads[0], mask) for q in q_heads]


@mutant("grouped_query_attention", "cannot share is let through")
def uneven_groups(q_heads, k_heads, v_heads, mask=None):
    H, G = len(q_heads), len(k_heads)
    return [_attend(q, k_heads[h * G // H], v_heads[h * G // H], mask) for h, q in enumerate(q_heads)]


@mutant("grouped_query_attention", "the mask is left out")
def groups_unmasked(q_heads, k_heads, v_heads, mask=None):
    return lab.grouped_query_attention(q_heads, k_heads, v_heads)


# ------------------------------------------------------------------------------------------------------------ flash


@mutant("online_softmax_step", "total and out are not rescaled")
def no_rescale(m, total, out, scores, values):
    new = max(m, *scores)
    if new == -INF:
        return m, total, out
    e = [math.exp(s - new) for s in scores]
    return new, total + sum(e), [o + sum(w * row[j] for w, row in zip(e, values)) for j, o in enumerate(out)]


@mutant("online_softmax_step", "out is not rescaled")
def output_not_rescaled(m, total, out, scores, values):
    new, new_total, _ = lab.online_softmax_step(m, total, out, scores, values)
    e = [math.exp(s - new) if new > -INF else 0.0 for s in scores]
    return new, new_total, [o + sum(w * row[j] for w, row in zip(e, values)) for j, o in enumerate(out)]


@mutant("online_softmax_step", "the maximum is the new tile's only")
def forgets_the_old_maximum(m, total, out, scores, values):
    new = max(scores)
    if new == -INF:
        return m, total, out
    shrink = math.exp(m - new)
    e = [math.exp(s - new) for s in scores]
    added = [sum(w * row[j] for w, row in zip(e, values)) for j in range(len(out))]
    return new, total * shrink + sum(e), [o * shrink + a for o, a in zip(out, added)]


@mutant("online_softmax_step", "a tile of nothing but −inf gives NaN")
def masked_tile_nan(m, total, out, scores, values):
    new = max(m, *scores)
    shrink, e = np.exp(np.float64(m) - new), np.exp(np.asarray(scores) - new)
    return new, total * shrink + e.sum(), np.asarray(out) * shrink + e @ np.asarray(values)


@mutant("online_softmax_step", "out is divided by total already")
def divided_each_time(m, total, out, scores, values):
    new, total, out = lab.online_softmax_step(m, total, out, scores, values)
    return new, total, [o / total for o in out] if total else out


@mutant("tiled_attention", "the last division by total is missing")
def never_divided(q, load, n_keys, tile_size):
    result = []
    for query in q:
        m, total, out = -INF, 0.0, None
        for start in range(0, n_keys, tile_size):
            keys, values = load(start, min(start + tile_size, n_keys))
            scores = [sum(a * b for a, b in zip(query, key)) / math.sqrt(len(query)) for key in keys]
            m, total, out = lab.online_softmax_step(m, total, out or [0.0] * len(values[0]), scores, values)
        result.append(out)
    return result


@mutant("tiled_attention", "a tile is gone when the next is loaded")
def plain_softmax_in_disguise(q, load, n_keys, tile_size):
    keys, values = [], []
    for start in range(0, n_keys, tile_size):
        k_tile, v_tile = load(start, min(start + tile_size, n_keys))
        keys.extend(k_tile)
        values.extend(v_tile)
    return lab.scaled_dot_product_attention(q, keys, values)


@mutant("tiled_attention", "are held at once")
def plain_softmax_on_copies(q, load, n_keys, tile_size):
    keys, values = [], []
    for start in range(0, n_keys, tile_size):
        k_tile, v_tile = load(start, min(start + tile_size, n_keys))
        keys.extend(row[:] for row in k_tile)
        values.extend(row[:] for row in v_tile)
    return lab.scaled_dot_product_attention(q, keys, values)


@mutant("tiled_attention", "are held at once")
def every_score_kept(q, load, n_keys, tile_size):
    starts = range(0, n_keys, tile_size)
    result = []
    for query in q:
        scores = []
        for start in starts:
            keys, _ = load(start, min(start + tile_size, n_keys))
            scores += [sum(a * b for a, b in zip(query, key)) / math.sqrt(len(query)) for key in keys]
        weights, out = lab.softmax(scores), None
        for start in starts:
            _, values = load(start, min(start + tile_size, n_keys))
            part = lab.matmul([weights[start : start + len(values)]], values)[0]
            out = part if out is None else lab.add_vectors(out, part)
        result.append(out)
    return result


@mutant("tiled_attention", "it loads everything at once")
def one_big_load(q, load, n_keys, tile_size):
    keys, values = load(0, n_keys)
    return lab.scaled_dot_product_attention(q, keys, values)


@mutant("tiled_attention", "the ragged last tile is dropped")
def whole_tiles_only(q, load, n_keys, tile_size):
    return lab.tiled_attention(q, load, n_keys - n_keys % tile_size, tile_size)


@mutant("tiled_attention", "the results are averaged")
def average_of_tiles(q, load, n_keys, tile_size):
    result = []
    for query in q:
        parts = []
        for start in range(0, n_keys, tile_size):
            keys, values = load(start, min(start + tile_size, n_keys))
            parts.append(lab.scaled_dot_product_attention([query], keys, values)[0])
        result.append([sum(column) / len(parts) for column in zip(*parts)])
    return result


# --------------------------------------------------------------------------------------------------------- sampling


@mutant("next_token", "multiplied by the temperature")
def upside_down(logits, temperature, u):
    if temperature == 0:
        return lab.next_token(logits, 0.0, u)
    return lab.next_token([logit * temperature for logit in logits], 1.0, u)


@mutant("next_token", "temperature 0 divides by zero")
def no_greedy_case(logits, temperature, u):
    weights = lab.softmax([logit / temperature for logit in logits])
    return next(i for i, total in enumerate(itertools.accumulate(weights)) if u < total)


@mutant("next_token", "u is not used")
def always_the_best(logits, temperature, u):
    return logits.index(max(logits))


@mutant("next_token", "are not cumulative")
def weights_not_added_up(logits, temperature, u):
    if temperature == 0:
        return lab.next_token(logits, 0.0, u)
    for token, weight in enumerate(lab.softmax([logit / temperature for logit in logits])):
        if u < weight:
            return token
    return len(logits) - 1


@mutant("generate", "the seed is not used")
def same_dice(params, prompt, n_new, temperature=0.0, seed=0):
    return lab.generate(params, prompt, n_new, temperature, 0)


@mutant("generate", "seeded anew for every token")
def dice_reset(params, prompt, n_new, temperature=0.0, seed=0):
    ids = list(prompt)
    for _ in range(n_new):
        u = random.Random(seed).random()
        ids.append(lab.next_token(lab.gpt_forward(ids, params)[-1], temperature, u))
    return ids


@mutant("generate", "only the newest token is read")
def goldfish(params, prompt, n_new, temperature=0.0, seed=0):
    rng, ids = random.Random(seed), list(prompt)
    for _ in range(n_new):
        u = rng.random() if temperature else 0.0
        ids.append(lab.next_token(lab.gpt_forward(ids[-1:], params)[-1], temperature, u))
    return ids


@mutant("generate", "it changes its argument prompt")
def prompt_extended(params, prompt, n_new, temperature=0.0, seed=0):
    rng = random.Random(seed)
    for _ in range(n_new):
        u = rng.random() if temperature else 0.0
        prompt.append(lab.next_token(lab.gpt_forward(prompt, params)[-1], temperature, u))
    return prompt


@mutant("generate", "the first row of logits is used")
def first_row(params, prompt, n_new, temperature=0.0, seed=0):
    rng, ids = random.Random(seed), list(prompt)
    for _ in range(n_new):
        u = rng.random() if temperature else 0.0
        ids.append(lab.next_token(lab.gpt_forward(ids, params)[0], temperature, u))
    return ids


# -------------------------------------------------------------------------------------------------------- embedding


@mutant("embed", "a negative one silently takes a row from the end")
def unchecked_lookup(token_ids, table):
    if max(token_ids) >= len(table):
        raise ValueError("token")
    return [table[token] for token in token_ids]


@mutant("embed", "columns are taken")
def columns(token_ids, table):
    if min(token_ids) < 0 or max(token_ids) >= len(table):
        raise ValueError("token")
    return np.array(table).T[np.array(token_ids) % len(table[0])]


@mutant("embed", "brought back into range")
def wrapped(token_ids, table):
    return np.take(table, token_ids, axis=0, mode="wrap")


@mutant("embed", "count from 0")
def shifted(token_ids, table):
    if min(token_ids) < 0 or max(token_ids) >= len(table):
        raise ValueError("token")
    return [table[token - 1] for token in token_ids]


@mutant("add_positions", "start is not used")
def always_from_zero(x, table, start=0):
    if start + len(x) > len(table):
        raise ValueError("past")
    return lab.add_positions(x, table)


@mutant("add_positions", "a position past the table is let through")
def clamped(x, table, start=0):
    return [lab.add_vectors(row, table[min(start + t, len(table) - 1)]) for t, row in enumerate(x)]


@mutant("add_positions", "every row gets the same position")
def frozen_position(x, table, start=0):
    lab.add_positions(x, table, start)
    return [lab.add_vectors(row, table[start]) for row in x]


@mutant("tied_logits", "the table is not transposed")
def untransposed(x, embed):
    return lab.matmul(x, embed)


@mutant("tied_logits", "divided by √d_model")
def scaled_logits(x, embed):
    return [[logit / math.sqrt(len(x[0])) for logit in row] for row in lab.tied_logits(x, embed)]


@mutant("tied_logits", "widths that differ are let through")
def short_dot_products(x, embed):
    return [[sum(a * b for a, b in zip(row, vector)) for vector in embed] for row in x]


# ------------------------------------------------------------------------------- what people write on NumPy arrays


@mutant("softmax", "large scores overflow: the maximum is not subtracted", arrays=True)
def array_without_maximum(x):
    e = np.exp(x)
    total = e.sum()
    return e / (1 if total == 0 and x.max() == -INF else total)


@mutant("softmax", "the exponentials are not divided by their sum", arrays=True)
def array_unnormalised(x):
    return np.zeros_like(x) if x.max() == -INF else np.exp(x - x.max())


@mutant("scaled_dot_product_attention", "the scores are not divided by √d_k", arrays=True)
def array_without_scale(q, k, v, mask=None):
    scores = q @ k.T if mask is None else q @ k.T + mask
    return _rows_softmax(scores) @ v


def _rows_softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


@mutant("layer_norm", "divided by n − 1", arrays=True)
def array_sample_deviation(x, weight, bias, eps=1e-5):
    return (x - x.mean()) / np.sqrt(x.var(ddof=1) + eps) * weight + bias


@mutant("rms_norm", "ε is outside the root", arrays=True)
def array_epsilon_outside(x, weight, eps=1e-5):
    return x / (np.sqrt((x**2).mean()) + eps) * weight


@mutant("_split_heads", "[n_heads, T, d_head] is asked for", arrays=True)
def array_without_swapaxes(x, n_heads):
    return x.reshape(x.shape[0], n_heads, x.shape[1] // n_heads)


@mutant("grouped_query_attention", "tiled", arrays=True)
def array_tiled(q_heads, k_heads, v_heads, mask=None):
    if q_heads.shape[0] % k_heads.shape[0]:
        raise ValueError("heads")
    times = q_heads.shape[0] // k_heads.shape[0]
    k_heads, v_heads = np.tile(k_heads, (times, 1, 1)), np.tile(v_heads, (times, 1, 1))
    scores = q_heads @ k_heads.swapaxes(-1, -2) / np.sqrt(q_heads.shape[-1])
    return _rows_softmax(scores if mask is None else scores + mask) @ v_heads


@mutant("tiled_attention", "are held at once", arrays=True)
def array_concatenated(q, load, n_keys, tile_size):
    keys = values = None
    for start in range(0, n_keys, tile_size):
        k_tile, v_tile = load(start, min(start + tile_size, n_keys))
        keys = k_tile.copy() if keys is None else np.concatenate([keys, k_tile])
        values = v_tile.copy() if values is None else np.concatenate([values, v_tile])
    return _rows_softmax(q @ keys.T / np.sqrt(q.shape[1])) @ values


@mutant("rope", "the pairs are (i, i + d/2)", arrays=True)
def array_rotate_half(x, positions, base=10000.0):
    half = x.shape[1] // 2
    angles = positions[:, None] * base ** (-np.arange(half) / half)
    if len(x) != len(positions):
        raise ValueError("positions")
    cos, sin = np.cos(angles), np.sin(angles)
    left, right = x[:, :half], x[:, half:]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=1)


@mutant("cross_entropy", "it takes the logarithm of a finished weight", arrays=True)
def array_log_of_weight(logits, target):
    e = np.exp(logits - logits.max())
    return -np.log(e / e.sum())[target]
