"""Chapters 2 and 4: scaled dot-product attention and the causal mask."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake, Sign
from ..oracle import INF

# Small scores, so that the softmax is soft and a missing scale shows; d_k = 4, so that √d_k, d_k and 1 all differ.
_Q = [[1.0, 0.5, -0.5, 2.0], [0.0, 1.0, 1.5, -1.0], [0.5, -1.0, 0.0, 1.0]]
_K = [[0.5, 1.0, 0.0, 1.0], [1.0, -0.5, 2.0, 0.0], [-1.0, 0.0, 0.5, 0.5]]
_V = [[1.0, 0.0], [2.0, -3.0], [4.0, 5.0]]
_MASK = [[0.0, -INF, -INF], [0.0, 0.0, -INF], [0.0, 0.0, 0.0]]


def _weights(q, k, v, mask=None):
    identity = [[float(i == j) for j in range(len(k))] for i in range(len(k))]
    return oracle.attention(q, k, identity, mask)


def _fully_masked(args, expected, got):
    return len(args) > 3 and any(all(m == -INF for m in row) for row in args[3])


CAUSAL_MASK = Exercise(
    name="causal_mask",
    chapter=4,
    params=("T",),
    oracle=oracle.causal_mask,
    mask=True,
    cases=(
        Case("causal_mask_two", (2,), "row 0 may attend to itself only, row 1 to both."),
        Case("causal_mask_one", (1,), "a single position may attend to itself."),
        Case("causal_mask_four", (4,), "0 on and below the diagonal, −inf above it."),
    ),
    mistakes=(
        Mistake(
            "off by one: the diagonal is masked out, too. A position may attend to itself.",
            partial(oracle.causal_mask, allowed=lambda i, j: j < i),
        ),
        Mistake(
            "off by one: each position sees the one after it. That leaks the answer.",
            partial(oracle.causal_mask, allowed=lambda i, j: j <= i + 1),
        ),
        Mistake(
            "it is transposed: each position sees the future and not the past.",
            partial(oracle.causal_mask, allowed=lambda i, j: j >= i),
        ),
        Mistake(
            "it holds a large finite number where −inf belongs: large scores can beat it.",
            *(partial(oracle.causal_mask, no=no) for no in (-1e9, -1e4, -1e6, -1e10, -1e30)),
        ),
        Mistake(
            "it holds True and False, or 1 and 0: this mask is added to the scores, so it holds 0 and −inf.",
            partial(oracle.causal_mask, yes=True, no=False),
            partial(oracle.causal_mask, yes=1.0, no=0.0),
        ),
        Mistake("it holds 1 where 0 belongs: this mask is added to the scores.", partial(oracle.causal_mask, yes=1.0)),
        Mistake("0 and −inf have changed places.", partial(oracle.causal_mask, yes=-INF, no=0.0)),
        Mistake("it holds +inf where −inf belongs.", partial(oracle.causal_mask, no=INF)),
        Mistake(
            "every row is one and the same list: [[0.0] * T] * T makes no new rows.",
            lambda T: [[0.0] + [-INF] * (T - 1)] * T,
        ),
        Mistake(
            "only the diagonal is open: the past is masked out.",
            partial(oracle.causal_mask, allowed=lambda i, j: i == j),
        ),
        Mistake("nothing is masked.", partial(oracle.causal_mask, no=0.0)),
    ),
    hints=(
        "Row i is query i, column j is key j: which j may it see?",
        "Entry (i, j) is 0.0 if j <= i else float('-inf').",
    ),
)

CAUSAL_MASK_RECTANGULAR = Exercise(
    name="causal_mask_rectangular",
    chapter=4,
    params=("T", "S"),
    oracle=lambda T, S: [[j <= i + S - T for j in range(S)] for i in range(T)],
    cases=(
        Case("causal_mask_rectangular_cache", (1, 3), "one new query after two cached tokens sees all three keys."),
        Case(
            "causal_mask_rectangular_two_of_five",
            (2, 5),
            "the last of T queries sees all S keys, the one before all but one.",
        ),
        Case("causal_mask_rectangular_square", (3, 3), "with T = S it is the ordinary causal mask."),
    ),
    mistakes=(
        Mistake(
            "it is aligned at the top left: the queries are the last T of the S positions, not the first.",
            lambda T, S: [[j <= i for j in range(S)] for i in range(T)],
        ),
        Mistake(
            "off by one: the last query must see the last key, which is itself.",
            lambda T, S: [[j < i + S - T for j in range(S)] for i in range(T)],
        ),
        Mistake(
            "off by one: each query sees the key after it.",
            lambda T, S: [[j <= i + S - T + 1 for j in range(S)] for i in range(T)],
        ),
        Mistake(
            "rows and columns have changed places: T queries down, S keys across.",
            lambda T, S: [[j <= i + S - T for i in range(T)] for j in range(S)],
        ),
        Mistake(
            "True and False have changed places: True = may attend.",
            lambda T, S: [[j > i + S - T for j in range(S)] for i in range(T)],
        ),
        Mistake(
            "it holds 0 and −inf: True and False are asked for, True = may attend.",
            lambda T, S: [[0.0 if j <= i + S - T else -INF for j in range(S)] for i in range(T)],
        ),
    ),
    hints=("Query i of T sits at position i + S − T.", "Entry (i, j) is j <= i + S − T."),
)

ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    chapter=2,
    params=("q", "k", "v", "mask"),
    oracle=oracle.attention,
    needs=("matmul", "transpose", "add_matrices", "softmax"),
    cases=(
        Case(
            "sqrt_dk_scaling_is_present",
            ([[2.0, 0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]], [[1.0], [3.0]]),
            "the scores are q·k / √d_k.",
        ),
        Case(
            "attention_weighted_average_of_values",
            ([[0.0, 0.0]], [[1.0, 2.0], [3.0, -1.0]], [[1.0, 10.0], [3.0, 30.0]]),
            "equal scores give the plain mean of the values.",
        ),
        Case("attention_three_queries", (_Q, _K, _V), "the result is softmax(q kᵀ / √d_k) v, one row for each query."),
        Case("attention_one_query_many_keys", (_Q[:1], _K, _V), "there may be fewer queries than keys."),
        Case(
            "attention_more_queries_than_keys",
            (_Q, _K[:2], [[1.0, 0.0, 2.0], [2.0, -3.0, 0.5]]),
            "there may be fewer keys than queries, and values of another width.",
        ),
        Case(
            "causal_attention_zero_in_upper_triangle",
            (_Q, _K, _V, _MASK),
            "under a causal mask query 0 sees key 0 only, so its output is v[0].",
        ),
        Case(
            "attention_mask_entries_are_added",
            (_Q[:2], _K[:2], _V[:2], [[0.0, -INF], [-INF, 0.0]]),
            "where the mask is −inf the weight is 0, where it is 0 nothing changes.",
        ),
        Case(
            "attention_mask_beats_large_scores",
            ([[-4e30], [0.0]], [[1.0], [0.0]], [[1.0], [100.0]], [[0.0, -INF], [0.0, -INF]]),
            "a key that is masked out gets no weight, however large the scores are.",
        ),
        Case(
            "attention_large_scores",
            ([[30.0, 40.0]], [[40.0, 0.0], [0.0, 40.0]], [[1.0], [2.0]]),
            "keep the softmax stable.",
        ),
        Case(
            "attention_fully_masked_row",
            ([[1.0]], [[1.0], [2.0], [-1.0]], [[1.0], [2.0], [6.0]], [[-INF, -INF, -INF]]),
            "a query that may attend to nothing gets zeros.",
        ),
    ),
    mistakes=(
        Mistake("the scores are not divided by √d_k.", partial(oracle.attention, scale=lambda d: 1.0)),
        Mistake(
            "the scores are divided by d_k, not by its square root.", partial(oracle.attention, scale=lambda d: 1 / d)
        ),
        Mistake("the scores are multiplied by √d_k: divide.", partial(oracle.attention, scale=math.sqrt)),
        Mistake(
            "the scale takes the number of keys for d_k, which is the width of a query.",
            lambda q, k, v, mask=None: oracle.attention(q, k, v, mask, scale=lambda d: len(k) ** -0.5),
        ),
        Mistake(
            "the scale takes the width of the values for d_k, which is the width of a query.",
            lambda q, k, v, mask=None: oracle.attention(q, k, v, mask, scale=lambda d: len(v[0]) ** -0.5),
        ),
        Mistake(
            "the softmax runs over the queries: each query's weights over the keys must sum to 1.",
            partial(oracle.attention, over_queries=True),
        ),
        Mistake("the softmax is missing: the raw scores weigh the values.", partial(oracle.attention, weigh=list)),
        Mistake(
            "the mask is left out.",
            lambda q, k, v, mask=None: oracle.attention(q, k, v),
        ),
        Mistake(
            "the mask is applied after the softmax, so the weights that are left do not sum to 1.",
            partial(oracle.attention, mask_after=True),
        ),
        Mistake(
            "the mask is transposed: rows are queries, columns are keys.",
            lambda q, k, v, mask=None: oracle.attention(q, k, v, mask and oracle.transpose(mask)),
        ),
        Mistake(
            "the mask is turned round: 0 (or True) lets a query attend, −inf (or False) does not.",
            lambda q, k, v, mask=None: oracle.attention(
                q, k, v, mask and [[0.0 if m == -INF else -INF for m in row] for row in mask]
            ),
        ),
        Mistake("the mask is subtracted: add it.", partial(oracle.attention, combine=lambda s, m: s - m)),
        Mistake(
            "the mask multiplies the scores: add it.",
            partial(oracle.attention, combine=lambda s, m: s * m),
            partial(oracle.attention, combine=lambda s, m: 0.0 if m == -INF else s),
        ),
        Mistake(
            "a query that may attend to nothing gets the mean of all values: it must get zeros.",
            partial(oracle.attention, weigh=partial(oracle.softmax, masked_row=lambda x: [1 / len(x)] * len(x))),
        ),
        Mistake(
            "the mask is replaced by a large finite number, which large scores can beat: use −inf itself.",
            *(
                partial(oracle.attention, combine=lambda s, m, f=f: f if m == -INF else s)
                for f in (-1e9, -1e4, -1e5, -1e6, -1e10)
            ),
            *(
                partial(oracle.attention, combine=lambda s, m, f=f: s + max(m, f))
                for f in (-1e9, -1e4, -1e5, -1e6, -1e10)
            ),
        ),
        Mistake("it returns the weights: multiply them by the values.", _weights),
        Mistake("the keys are averaged, not the values.", lambda q, k, v, mask=None: oracle.attention(q, k, k, mask)),
        Mistake("queries and keys have changed places.", lambda q, k, v, mask=None: oracle.attention(k, q, v, mask)),
        Sign("a query that may attend to nothing gets NaN: it must get zeros.", _fully_masked),
    ),
    hints=(
        "Five steps: scores, scale, mask, softmax of each row, weighted sum of the values.",
        "scores = matmul(q, transpose(k)), every entry divided by √d_k; add the mask if there is one.",
        "weights = [softmax(row) for row in scores]; the result is matmul(weights, v).",
    ),
)
