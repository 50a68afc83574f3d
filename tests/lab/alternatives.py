# ruff: noqa: B905
"""Answers that are right in another way: other loops, other but equal formulas, NumPy. None may be refused."""

import itertools
import math
import random
from dataclasses import dataclass

import numpy as np

import labkit.attention
import labkit.mask
import labkit.softmax
from labkit.lab import solution as lab

INF = float("inf")


@dataclass(frozen=True)
class Alternative:
    """A right answer to an exercise; `arrays` if it takes only arrays."""

    exercise: str
    name: str
    answer: object
    arrays: bool


ALTERNATIVES = []


def alternative(exercise, arrays=False):
    """Register the function below as a right answer."""

    def keep(answer):
        ALTERNATIVES.append(Alternative(exercise, answer.__name__, answer, arrays))
        return answer

    return keep


# ------------------------------------------------------------------------------------------------- linear algebra


@alternative("matmul")
def three_loops(a, b):
    n, m, p = len(a), len(b), len(b[0])
    for row in a:
        if len(row) != m:
            raise ValueError("a")
    for row in b:
        if len(row) != p:
            raise ValueError("b")
    c = []
    for i in range(n):
        c.append([])
        for j in range(p):
            total = 0.0
            for k in range(m):
                total += a[i][k] * b[k][j]
            c[i].append(total)
    return c


@alternative("matmul")
def sum_of_scaled_rows(a, b):
    if any(len(row) != len(b) for row in a) or any(len(row) != len(b[0]) for row in b):
        raise ValueError("shapes")
    result = []
    for row in a:
        out = [0.0] * len(b[0])
        for weight, line in zip(row, b):
            out = [o + weight * v for o, v in zip(out, line)]
        result.append(out)
    return result


@alternative("matmul")
def at_sign(a, b):
    return np.array(a) @ np.array(b)


@alternative("transpose")
def index_by_index(a):
    if len(set(map(len, a))) != 1:
        raise ValueError("ragged")
    return [[a[i][j] for i in range(len(a))] for j in range(len(a[0]))]


@alternative("transpose")
def strict_zip(a):
    return list(zip(*a, strict=True))


@alternative("transpose")
def dot_t(a):
    return np.array(a).T


@alternative("add_vectors")
def strict_sum(a, b):
    return [sum(pair) for pair in zip(a, b, strict=True)]


@alternative("add_vectors")
def by_index(a, b):
    if len(a) != len(b):
        raise ValueError("lengths")
    return [a[i] + b[i] for i in range(len(a))]


@alternative("add_vectors", arrays=True)
def added_arrays(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes")
    return a + b


@alternative("add_matrices")
def double_loop(a, b):
    if len(a) != len(b):
        raise ValueError("rows")
    c = []
    for i in range(len(a)):
        if len(a[i]) != len(b[i]):
            raise ValueError("columns")
        c.append([a[i][j] + b[i][j] for j in range(len(a[i]))])
    return c


@alternative("add_matrices")
def strict_zips(a, b):
    return [[x + y for x, y in zip(row, line, strict=True)] for row, line in zip(a, b, strict=True)]


@alternative("add_matrices")
def checked_arrays(a, b):
    a, b = np.array(a), np.array(b)
    if a.shape != b.shape:
        raise ValueError(f"{a.shape} and {b.shape}")
    return a + b


@alternative("linear")
def dot_products(x, w, b=None):
    b = [0.0] * len(w[0]) if b is None else b
    if len(b) != len(w[0]) or len(x[0]) != len(w):
        raise ValueError("sizes")
    return [[sum(v * w[i][j] for i, v in enumerate(row)) + b[j] for j in range(len(b))] for row in x]


@alternative("linear")
def einsum(x, w, b=None):
    y = np.einsum("ti,io->to", np.array(x), np.array(w))
    if b is not None and len(b) != y.shape[1]:
        raise ValueError("bias")
    return y if b is None else y + np.array(b)


@alternative("linear")
def house_linear(x, w, b=None):
    return labkit.attention.linear(x, w, b)


# ---------------------------------------------------------------------------------------- softmax and its relatives


@alternative("softmax")
def by_log_sum_exp(x):
    top = max(x)
    if math.isinf(top):
        return [0.0 for _ in x]
    log_total = top + math.log(math.fsum(math.exp(score - top) for score in x))
    return [math.exp(score - log_total) for score in x]


@alternative("softmax")
def one_over_sum_of_differences(x):
    if max(x) == -INF:
        return [0.0] * len(x)

    def weight(score):
        if score == -INF:
            return 0.0
        differences = [other - score for other in x]
        top = max(differences)
        return math.exp(-top) / sum(math.exp(d - top) for d in differences)

    return [weight(score) for score in x]


@alternative("softmax", arrays=True)
def array_softmax(x):
    if np.isneginf(x).all():
        return np.zeros_like(x)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@alternative("softmax")
def house_softmax(x):
    return labkit.softmax.softmax(x)


@alternative("log_softmax")
def logaddexp_reduced(x):
    return np.asarray(x) - np.logaddexp.reduce(x)


@alternative("log_softmax")
def shifted_twice(x):
    top = max(x)
    shifted = [score - top for score in x]
    log_total = math.log(sum(map(math.exp, shifted)))
    return tuple(score - log_total for score in shifted)


@alternative("log_softmax")
def house_log_softmax(x):
    return labkit.softmax.log_softmax(x)


@alternative("entropy")
def loop_entropy(p):
    total = 0.0
    for weight in p:
        if weight != 0:
            total += weight * math.log(1 / weight)
    return total


@alternative("entropy", arrays=True)
def nonzero_only(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


@alternative("entropy")
def house_entropy(p):
    return labkit.softmax.entropy(p)


@alternative("softmax_jacobian")
def diag_minus_outer(p):
    return np.diag(p) - np.outer(p, p)


@alternative("softmax_jacobian")
def kronecker(p):
    return [[p[i] * ((i == j) - p[j]) for j in range(len(p))] for i in range(len(p))]


@alternative("cross_entropy")
def log_of_sum_of_differences(logits, target):
    differences = [logit - logits[target] for logit in logits]
    top = max(differences)
    return top + math.log(sum(math.exp(d - top) for d in differences))


@alternative("cross_entropy")
def logaddexp_loss(logits, target):
    return np.logaddexp.reduce(logits) - logits[target]


@alternative("cross_entropy")
def house_cross_entropy(logits, target):
    return labkit.softmax.cross_entropy(np.asarray(logits), np.asarray(target))


# ------------------------------------------------------------------------------------------------------------ norms


@alternative("layer_norm")
def centred_first(x, weight, bias, eps=1e-5):
    mean = math.fsum(x) / len(x)
    centred = [v - mean for v in x]
    inverse = (math.fsum(c * c for c in centred) / len(x) + eps) ** -0.5
    return [c * inverse * weight[i] + bias[i] for i, c in enumerate(centred)]


@alternative("layer_norm", arrays=True)
def array_layer_norm(x, weight, bias, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


@alternative("rms_norm")
def by_hypot(x, weight, eps=1e-5):
    divisor = math.hypot(math.hypot(*x) / math.sqrt(len(x)), math.sqrt(eps))
    return [v / divisor * w for v, w in zip(x, weight)]


@alternative("rms_norm", arrays=True)
def array_rms_norm(x, weight, eps=1e-5):
    return x * (np.square(x).mean() + eps) ** -0.5 * weight


# -------------------------------------------------------------------------------------------------------- attention


@alternative("causal_mask")
def row_by_row(T):
    return [[0.0] * (i + 1) + [-INF] * (T - i - 1) for i in range(T)]


@alternative("causal_mask")
def triu(T):
    return np.triu(np.full((T, T), -np.inf), k=1)


@alternative("causal_mask")
def integers(T):
    return [[0 if i >= j else -math.inf for j in range(T)] for i in range(T)]


@alternative("causal_mask_rectangular")
def tril(T, S):
    return np.tril(np.ones((T, S), dtype=bool), k=S - T)


@alternative("causal_mask_rectangular")
def last_rows_of_the_square(T, S):
    return [[j <= i for j in range(S)] for i in range(S)][S - T :]


@alternative("causal_mask_rectangular")
def house_causal_mask(T, S):
    return labkit.mask.causal_mask(T, S)


@alternative("scaled_dot_product_attention")
def query_by_query(q, k, v, mask=None):
    out = []
    for i, query in enumerate(q):
        scaled = [value / len(query) ** 0.5 for value in query]
        scores = [sum(a * b for a, b in zip(scaled, key)) for key in k]
        if mask is not None:
            scores = [-INF if mask[i][j] == -INF else s for j, s in enumerate(scores)]
        weights = lab.softmax(scores)
        out.append([sum(w * row[j] for w, row in zip(weights, v)) for j in range(len(v[0]))])
    return out


@alternative("scaled_dot_product_attention")
def divided_at_the_end(q, k, v, mask=None):
    out = []
    for i, query in enumerate(q):
        scores = [sum(a * b for a, b in zip(query, key)) / math.sqrt(len(key)) for key in k]
        scores = [s + mask[i][j] for j, s in enumerate(scores)] if mask else scores
        top = max(scores)
        e = [math.exp(s - top) if s > -INF else 0.0 for s in scores]
        total = sum(e) or 1.0
        out.append([sum(w * row[j] for w, row in zip(e, v)) / total for j in range(len(v[0]))])
    return out


@alternative("scaled_dot_product_attention", arrays=True)
def array_attention(q, k, v, mask=None):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores += mask
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    e = np.exp(scores - top)
    return e @ v / np.maximum(e.sum(-1, keepdims=True), 1e-300)


@alternative("scaled_dot_product_attention", arrays=True)
def array_attention_with_a_boolean_mask(q, k, v, mask=None):
    scores = np.einsum("td,sd->ts", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total > 0, total, 1) @ v


@alternative("scaled_dot_product_attention")
def house_attention(q, k, v, mask=None):
    return labkit.attention.scaled_dot_product_attention(q, k, v, None if mask is None else np.asarray(mask))


@alternative("_split_heads")
def by_batches(x, n_heads):
    if len(x[0]) % n_heads != 0:
        raise ValueError("heads")
    d = len(x[0]) // n_heads
    heads = [[] for _ in range(n_heads)]
    for row in x:
        for h in range(n_heads):
            heads[h].append([row[h * d + j] for j in range(d)])
    return heads


@alternative("_split_heads")
def reshape_and_swap(x, n_heads):
    return np.swapaxes(np.reshape(x, (len(x), n_heads, -1)), 0, 1)


@alternative("_split_heads")
def numpy_split(x, n_heads):
    return np.split(np.asarray(x), n_heads, axis=1)


@alternative("_concat_heads")
def chained(heads):
    return [list(itertools.chain(*(head[t] for head in heads))) for t in range(len(heads[0]))]


@alternative("_concat_heads")
def sum_of_lists(heads):
    return [sum((list(head[t]) for head in heads), []) for t in range(len(heads[0]))]  # noqa: RUF017


@alternative("_concat_heads")
def numpy_concatenate(heads):
    return np.concatenate(heads, axis=-1)


@alternative("multi_head_attention")
def sum_over_heads(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """Concatenating and projecting is the sum of each head times its own rows of w_o."""
    d_model = len(x[0])
    if d_model % n_heads:
        raise ValueError("heads")
    d, total = d_model // n_heads, None
    for h in range(n_heads):
        columns = slice(h * d, (h + 1) * d)
        q, k, v = (lab.matmul(x, [row[columns] for row in w]) for w in (w_q, w_k, w_v))
        part = lab.matmul(lab.scaled_dot_product_attention(q, k, v, mask), w_o[columns])
        total = part if total is None else lab.add_matrices(total, part)
    return total


@alternative("multi_head_attention", arrays=True)
def array_heads(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    T, d_model = x.shape
    q, k, v = ((x @ w).reshape(T, n_heads, d_model // n_heads).swapaxes(0, 1) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    out = e / e.sum(-1, keepdims=True) @ v
    return out.swapaxes(0, 1).reshape(T, d_model) @ w_o


# -------------------------------------------------------------------------------------------------------- positions


@alternative("_rope_vector")
def complex_numbers(x, pos, base=10000.0):
    if len(x) % 2:
        raise ValueError("odd")
    d, out = len(x), []
    for i in range(d // 2):
        z = complex(x[2 * i], x[2 * i + 1]) * (
            math.cos(pos / base ** (2 * i / d)) + 1j * math.sin(pos / base ** (2 * i / d))
        )
        out.extend((z.real, z.imag))
    return out


@alternative("_rope_vector")
def array_pairs(x, pos, base=10000.0):
    pairs = np.reshape(x, (-1, 2))
    angles = pos * np.exp(-np.log(base) * np.arange(len(pairs)) / len(pairs))
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([pairs[:, 0] * cos - pairs[:, 1] * sin, pairs[:, 0] * sin + pairs[:, 1] * cos], axis=1).ravel()


@alternative("rope")
def loop_over_rows(x, positions, base=10000.0):
    if len(positions) != len(x):
        raise ValueError("positions")
    rotated = []
    for t in range(len(x)):
        rotated.append(complex_numbers(x[t], positions[t], base))
    return rotated


@alternative("rope", arrays=True)
def outer_angles(x, positions, base=10000.0):
    if x.shape[0] != positions.shape[0]:
        raise ValueError("positions")
    angles = np.outer(positions, base ** (-np.arange(0, x.shape[1], 2) / x.shape[1]))
    z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


@alternative("rope_multi_head_attention")
def turned_by_the_difference(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    """Rotating the key by the difference of positions is as good as rotating both."""
    q, k, v = (lab._split_heads(lab.linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    heads = []
    for a, b, c in zip(q, k, v):
        rows = []
        for i, query in enumerate(a):
            keys = lab.rope(b, [pos - positions[i] for pos in positions])
            rows += lab.scaled_dot_product_attention([query], keys, c, mask and [mask[i]])
        heads.append(rows)
    return lab.linear(lab._concat_heads(heads), w_o)


@alternative("rope_multi_head_attention", arrays=True)
def array_rope_heads(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    T, d_model = x.shape
    q, k, v = ((x @ w).reshape(T, n_heads, -1).swapaxes(0, 1) for w in (w_q, w_k, w_v))
    q, k = (np.stack([outer_angles(head, positions) for head in heads]) for heads in (q, k))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(T, d_model) @ w_o


# ----------------------------------------------------------------------------------------------------- feed-forward


@alternative("gelu")
def gelu_by_a_logistic(x):
    """½ (1 + tanh y) = σ(2y)."""
    y = 2 * 0.7978845608028654 * (x + 0.044715 * x**3)
    return x / (1 + math.exp(-y)) if y > -700 else 0.0


@alternative("gelu")
def array_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * np.power(x, 3))))


@alternative("_silu")
def silu_by_tanh(z):
    return z * 0.5 * (1 + math.tanh(z / 2))


@alternative("_silu")
def array_silu(z):
    return z / (1 + np.exp(-np.asarray(z)))


@alternative("swiglu_ffn")
def unit_by_unit(x, w_gate, w_up, w_down):
    if len(w_down) != len(w_gate[0]):
        raise ValueError("d_ff")
    out = []
    for row in x:
        y = [0.0] * len(w_down[0])
        for unit in range(len(w_down)):
            gate = sum(v * w_gate[i][unit] for i, v in enumerate(row))
            up = sum(v * w_up[i][unit] for i, v in enumerate(row))
            y = [a + lab._silu(gate) * up * w for a, w in zip(y, w_down[unit])]
        out.append(y)
    return out


@alternative("swiglu_ffn", arrays=True)
def array_swiglu(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    return (gate / (1 + np.exp(-gate)) * (x @ w_up)) @ w_down


# ------------------------------------------------------------------------------------------------- block and model


@alternative("transformer_block")
def corrections_collected(x, block, mask=None):
    normed = [lab.rms_norm(row, block["norm1_w"]) for row in x]
    names = ("w_q", "w_k", "w_v", "w_o", "n_heads")
    first = lab.multi_head_attention(normed, *(block[name] for name in names), mask=mask)
    middle = [[a + b for a, b in zip(row, line)] for row, line in zip(x, first)]
    normed = [lab.rms_norm(row, block["norm2_w"]) for row in middle]
    second = lab.swiglu_ffn(normed, *(block[name] for name in ("w_gate", "w_up", "w_down")))
    return [[a + b + c for a, b, c in zip(*rows)] for rows in zip(x, first, second)]


@alternative("transformer_block", arrays=True)
def array_block(x, block, mask=None):
    def norm(rows, weight):
        return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight

    weights = (block["w_q"], block["w_k"], block["w_v"], block["w_o"])
    x = x + array_heads(norm(x, block["norm1_w"]), *weights, block["n_heads"], mask)
    return x + array_swiglu(norm(x, block["norm2_w"]), block["w_gate"], block["w_up"], block["w_down"])


@alternative("build_params")
def uniform_weights_in_another_order(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    rng = random.Random(seed)
    draw = lambda rows, columns: [[rng.uniform(-0.05, 0.05) for _ in range(columns)] for _ in range(rows)]  # noqa: E731
    params = {"lm_head": draw(d_model, vocab_size), "final_norm_w": [1.0] * d_model, "blocks": []}
    for _ in range(n_layers):
        block = {name: draw(d_model, d_model) for name in ("w_o", "w_v", "w_k", "w_q")}
        block.update(w_down=draw(d_ff, d_model), w_up=draw(d_model, d_ff), w_gate=draw(d_model, d_ff))
        block.update(norm1_w=[1.0] * d_model, norm2_w=[1.0] * d_model, n_heads=n_heads)
        params["blocks"].append(block)
    params["embed"] = draw(vocab_size, d_model)
    return params


@alternative("build_params")
def array_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    rng = np.random.default_rng(seed)
    square = {"w_q": d_model, "w_k": d_model, "w_v": d_model, "w_o": d_model, "w_gate": d_ff, "w_up": d_ff}
    blocks = [
        {
            **{name: rng.normal(0, 0.02, (d_model, width)) for name, width in square.items()},
            "w_down": rng.normal(0, 0.02, (d_ff, d_model)),
            "norm1_w": np.ones(d_model),
            "norm2_w": np.ones(d_model),
            "n_heads": n_heads,
        }
        for _ in range(n_layers)
    ]
    return {
        "embed": rng.normal(0, 0.02, (vocab_size, d_model)),
        "blocks": blocks,
        "final_norm_w": np.ones(d_model),
        "lm_head": rng.normal(0, 0.02, (d_model, vocab_size)),
    }


@alternative("gpt_forward")
def every_prefix_by_itself(token_ids, params):
    """The causal mask makes row t what the last row of prefix t is."""
    if not token_ids or any(not 0 <= token < len(params["embed"]) for token in token_ids):
        raise ValueError("token_ids")
    return [lab.gpt_forward(token_ids[: t + 1], params)[-1] for t in range(len(token_ids))]


@alternative("gpt_forward", arrays=True)
def array_forward(token_ids, params):
    token_ids = np.asarray(token_ids)
    if token_ids.size == 0 or token_ids.min() < 0 or token_ids.max() >= params["embed"].shape[0]:
        raise ValueError("token_ids")
    T = len(token_ids)
    x = outer_angles(params["embed"][token_ids], np.arange(T))
    for block in params["blocks"]:
        x = array_block(x, block, triu(T))
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * params["final_norm_w"] @ params["lm_head"]


# ------------------------------------------------------------------------------------------------------------ cache


@alternative("attention_with_kv_cache")
def copied_then_appended(q_new, k_new, v_new, cache_k, cache_v):
    keys, values = list(cache_k), list(cache_v)
    keys.append(k_new)
    values.append(v_new)
    weights = lab.softmax([sum(a * b for a, b in zip(q_new, key)) / math.sqrt(len(q_new)) for key in keys])
    context = [sum(w * row[j] for w, row in zip(weights, values)) for j in range(len(v_new))]
    return [context, keys, values]


@alternative("attention_with_kv_cache", arrays=True)
def vstacked(q_new, k_new, v_new, cache_k, cache_v):
    keys, values = np.vstack([cache_k, k_new[None]]), np.vstack([cache_v, v_new[None]])
    scores = keys @ q_new / np.sqrt(q_new.size)
    e = np.exp(scores - scores.max())
    return e / e.sum() @ values, keys, values


@alternative("grouped_query_attention")
def repeated_heads(q_heads, k_heads, v_heads, mask=None):
    if len(q_heads) % len(k_heads):
        raise ValueError("heads")
    times = len(q_heads) // len(k_heads)
    k_heads = [head for head in k_heads for _ in range(times)]
    v_heads = [head for head in v_heads for _ in range(times)]
    return [lab.scaled_dot_product_attention(*heads, mask) for heads in zip(q_heads, k_heads, v_heads)]


@alternative("grouped_query_attention", arrays=True)
def array_groups(q_heads, k_heads, v_heads, mask=None):
    (H, T, d), G = q_heads.shape, len(k_heads)
    grouped = q_heads.reshape(G, H // G, T, d)
    scores = np.einsum("ghtd,gsd->ghts", grouped, k_heads) / np.sqrt(d)
    scores = scores if mask is None else scores + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("ghts,gsv->ghtv", e / e.sum(-1, keepdims=True), v_heads).reshape(H, T, -1)


# ------------------------------------------------------------------------------------------------------------ flash


@alternative("online_softmax_step")
def one_score_at_a_time(m, total, out, scores, values):
    for score, row in zip(scores, values):
        if score == -INF:
            continue
        if score > m:
            shrink = math.exp(m - score)
            m, total, out = score, total * shrink, [o * shrink for o in out]
        weight = math.exp(score - m)
        total, out = total + weight, [o + weight * v for o, v in zip(out, row)]
    return m, total, out


@alternative("online_softmax_step", arrays=True)
def array_step(m, total, out, scores, values):
    new = np.maximum(m, scores.max())
    if np.isneginf(new):
        return m, total, out
    e = np.exp(scores - new)
    return new, total * np.exp(m - new) + e.sum(), out * np.exp(m - new) + e @ values


@alternative("tiled_attention")
def two_passes_over_the_tiles(q, load, n_keys, tile_size):
    """A first walk finds the maximum and the sum, a second one weighs the values: no rescaling at all."""
    result = []
    for query in q:

        def tiles(query=query):
            for start in range(0, n_keys, tile_size):
                keys, values = load(start, min(start + tile_size, n_keys))
                yield [sum(a * b for a, b in zip(query, key)) / math.sqrt(len(query)) for key in keys], values

        top = max(max(scores) for scores, _ in tiles())
        total = sum(math.exp(s - top) for scores, _ in tiles() for s in scores)
        out = None
        for scores, values in tiles():
            out = out or [0.0] * len(values[0])
            for score, row in zip(scores, values):
                out = [o + math.exp(score - top) / total * v for o, v in zip(out, row)]
        result.append(out)
    return result


@alternative("tiled_attention", arrays=True)
def all_queries_at_once(q, load, n_keys, tile_size):
    m, total, out = np.full((len(q), 1), -np.inf), np.zeros((len(q), 1)), 0.0
    for start in range(0, n_keys, tile_size):
        keys, values = load(start, min(start + tile_size, n_keys))
        scores = q @ keys.T / np.sqrt(q.shape[1])
        new = np.maximum(m, scores.max(axis=1, keepdims=True))
        e, shrink = np.exp(scores - new), np.exp(m - new)
        m, total, out = new, total * shrink + e.sum(axis=1, keepdims=True), out * shrink + e @ values
    return out / total


# --------------------------------------------------------------------------------------------------------- sampling


@alternative("next_token")
def accumulated(logits, temperature, u):
    if temperature == 0:
        return max(range(len(logits)), key=lambda token: logits[token])
    weights = lab.softmax([logit / temperature for logit in logits])
    for token, total in enumerate(itertools.accumulate(weights)):
        if total > u:
            return token
    return max(token for token, weight in enumerate(weights) if weight)


@alternative("next_token", arrays=True)
def searchsorted(logits, temperature, u):
    if temperature == 0:
        return int(logits.argmax())
    e = np.exp((logits - logits.max()) / temperature)
    token = np.searchsorted(np.cumsum(e / e.sum()), u, side="right")
    return min(token, np.flatnonzero(e)[-1])


@alternative("generate")
def appended_to_a_copy(params, prompt, n_new, temperature=0.0, seed=0):
    dice = random.Random(seed)
    tokens = [*prompt]
    while len(tokens) < len(prompt) + n_new:
        logits = lab.gpt_forward(tokens, params)
        tokens = [*tokens, lab.next_token(logits[len(tokens) - 1], temperature, dice.random())]
    return tokens


@alternative("generate", arrays=True)
def array_generate(params, prompt, n_new, temperature=0.0, seed=0):
    dice, tokens = random.Random(seed), np.array(prompt)
    for _ in range(n_new):
        last = array_forward(tokens, params)[-1]
        tokens = np.append(tokens, searchsorted(last, temperature, dice.random()))
    return tokens


# -------------------------------------------------------------------------------------------------------- embedding


@alternative("embed")
def one_hot_product(token_ids, table):
    if not all(token in range(len(table)) for token in token_ids):
        raise ValueError("token")
    one_hot = [[float(token == row) for row in range(len(table))] for token in token_ids]
    return lab.matmul(one_hot, table)


@alternative("embed", arrays=True)
def fancy_indexing(token_ids, table):
    if token_ids.min() < 0 or token_ids.max() >= table.shape[0]:
        raise ValueError("token")
    return table[token_ids]


@alternative("add_positions")
def rows_of_the_table(x, table, start=0):
    rows = table[start : start + len(x)]
    return [[a + b for a, b in zip(row, vector, strict=True)] for row, vector in zip(x, rows, strict=True)]


@alternative("add_positions", arrays=True)
def array_positions(x, table, start=0):
    rows = table[start : start + x.shape[0]]
    if rows.shape != x.shape:
        raise ValueError("past the table")
    return x + rows


@alternative("tied_logits")
def every_row_compared(x, embed):
    return [[sum(a * b for a, b in zip(row, vector, strict=True)) for vector in embed] for row in x]


@alternative("tied_logits", arrays=True)
def array_tied(x, embed):
    return x @ embed.T
