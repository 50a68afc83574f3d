"""Chapter 5: many heads; and the two extensions that change what a head attends with."""

from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake

_X = oracle.numbers(11, 3, 4)
_W_Q, _W_K, _W_V, _W_O = (oracle.numbers(seed, 4, 4) for seed in (12, 13, 14, 15))
_WEIGHTS = (_W_Q, _W_K, _W_V, _W_O)
_MASK = oracle.causal_mask(3)
_HEADS = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[9.0, 10.0], [11.0, 12.0]]]


def _split_strided(x, n_heads):
    oracle.require(len(x[0]) % n_heads == 0, "not divisible")
    return [[row[h::n_heads] for row in x] for h in range(n_heads)]


def _concat_strided(heads):
    return [[v for together in zip(*rows, strict=True) for v in together] for rows in zip(*heads, strict=True)]


SPLIT_HEADS = Exercise(
    name="_split_heads",
    chapter=5,
    params=("x", "n_heads"),
    oracle=oracle.split_heads,
    cases=(
        Case("split_heads_one_row", ([[1.0, 2.0, 3.0, 4.0]], 2), "head 0 takes the first d_head columns."),
        Case(
            "split_heads_two_rows",
            ([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], 2),
            "the result is [n_heads, T, d_head].",
        ),
        Case(
            "split_heads_three_heads",
            (oracle.numbers(10, 4, 6), 3),
            "head h takes columns h·d_head to (h + 1)·d_head − 1.",
        ),
        Case("split_heads_one_head", (oracle.numbers(10, 2, 3), 1), "one head takes everything."),
        Case(
            "split_heads_rejects_indivisible",
            ([[1.0, 2.0, 3.0, 4.0, 5.0]], 2),
            "5 columns cannot be shared by 2 heads.",
        ),
    ),
    mistakes=(
        Mistake("a head takes every n-th column: it should take d_head neighbours.", _split_strided),
        Mistake(
            "the axes are in another order: [n_heads, T, d_head] is asked for, not [T, n_heads, d_head].",
            lambda x, n: [list(rows) for rows in zip(*oracle.split_heads(x, n), strict=True)],
        ),
        Mistake(
            "columns that are left over are dropped without a word: raise ValueError.",
            partial(oracle.split_heads, check=False),
        ),
        Mistake(
            "the rows are shared out among the heads: share out the columns.",
            lambda x, n: [x[h * (len(x) // n) : (h + 1) * (len(x) // n)] for h in range(n)],
        ),
        Mistake("the heads come in reverse order.", lambda x, n: oracle.split_heads(x, n)[::-1]),
        Mistake("every head gets the same columns.", lambda x, n: [oracle.split_heads(x, n)[0]] * n),
        Mistake(
            "n_heads is taken for d_head: slices of n_heads columns.",
            lambda x, n: oracle.split_heads(x, len(x[0]) // n),
        ),
    ),
    hints=(
        "d_head = d_model // n_heads; head h owns that many neighbouring columns.",
        "[[row[h * d : (h + 1) * d] for row in x] for h in range(n_heads)]",
    ),
)

CONCAT_HEADS = Exercise(
    name="_concat_heads",
    chapter=5,
    params=("heads",),
    oracle=oracle.concat_heads,
    cases=(
        Case("concat_heads_two", (_HEADS[:2],), "row t is row t of every head, side by side."),
        Case("concat_heads_three", (_HEADS,), "row t is row t of every head, side by side."),
        Case(
            "concat_heads_one_row_each",
            ([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]],),
            "the result has one row for each position.",
        ),
        Case("concat_heads_one", ([[[1.0, 2.0], [3.0, 4.0]]],), "a single head comes back as it was."),
    ),
    mistakes=(
        Mistake(
            "the heads are put below each other: put them side by side.",
            lambda heads: [row for head in heads for row in head],
        ),
        Mistake("the columns of the heads are shuffled into each other: keep each head's together.", _concat_strided),
        Mistake(
            "the heads are added up: put them side by side.",
            lambda heads: [[sum(v) for v in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)],
        ),
        Mistake(
            "the heads are averaged: put them side by side.",
            lambda heads: [[oracle.mean(v) for v in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)],
        ),
        Mistake("the heads come in reverse order.", lambda heads: oracle.concat_heads(heads[::-1])),
        Mistake("only the first head comes through.", lambda heads: heads[0]),
        Mistake("only the last head comes through.", lambda heads: heads[-1]),
        Mistake(
            "the rows of the heads are not joined into one.",
            lambda heads: [list(rows) for rows in zip(*heads, strict=True)],
        ),
    ),
    hints=("It undoes _split_heads.", "Row t of the result: start with an empty list, and add head[t] for every head."),
)


def _mha(**knobs):
    return partial(oracle.multi_head, **knobs)


def _no_split(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    oracle.split_heads(x, n_heads)
    return oracle.multi_head(x, w_q, w_k, w_v, w_o, 1, mask)


def _on_x(which):
    """Return multi-head attention that uses x itself in place of one of its projections."""

    def wrong(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
        weights = [w_q, w_k, w_v]
        weights[which] = [[float(i == j) for j in range(len(row))] for i, row in enumerate(weights[which])]
        return oracle.multi_head(x, *weights, w_o, n_heads, mask)

    return wrong


MULTI_HEAD_ATTENTION = Exercise(
    name="multi_head_attention",
    chapter=5,
    params=("x", "w_q", "w_k", "w_v", "w_o", "n_heads", "mask"),
    oracle=oracle.multi_head,
    needs=("linear", "_split_heads", "_concat_heads", "scaled_dot_product_attention"),
    cases=(
        Case("mha_two_heads", (_X[:2], *_WEIGHTS, 2), "project, split, attend head by head, concatenate, project."),
        Case("mha_one_head", (_X, *_WEIGHTS, 1), "one head is attention over the full width, then w_o."),
        Case("mha_four_heads", (_X, *_WEIGHTS, 4), "four heads of width 1."),
        Case("mha_causal", (_X, *_WEIGHTS, 2, _MASK), "the mask holds in every head."),
        Case("mha_one_position", (_X[:1], *_WEIGHTS, 2), "a single position attends to itself: x w_v w_o."),
        Case(
            "mha_rejects_indivisible_heads",
            (oracle.numbers(16, 2, 4), *_WEIGHTS, 3),
            "d_model = 4 cannot be shared by 3 heads.",
        ),
    ),
    mistakes=(
        Mistake("the output projection w_o is missing.", _mha(out=lambda x, w: x)),
        Mistake("the heads are not split: every n_heads gives one head over the full width.", _no_split),
        Mistake(
            "the scores are scaled by √d_model: each head is only d_head wide.",
            lambda x, *rest: oracle.multi_head(
                x, *rest, attend=partial(oracle.attention, scale=lambda d: len(x[0]) ** -0.5)
            ),
        ),
        Mistake("the mask does not reach the heads.", lambda *args: oracle.multi_head(*args[:6])),
        Mistake("w_k and w_v have changed places.", lambda x, q, k, v, *rest: oracle.multi_head(x, q, v, k, *rest)),
        Mistake("w_q and w_k have changed places.", lambda x, q, k, v, *rest: oracle.multi_head(x, k, q, v, *rest)),
        Mistake("the values are not projected: w_v is missing.", _on_x(2)),
        Mistake("the queries are not projected: w_q is missing.", _on_x(0)),
        Mistake("the keys are not projected: w_k is missing.", _on_x(1)),
        Mistake("the keys are projected with w_q.", lambda x, q, k, v, *rest: oracle.multi_head(x, q, q, v, *rest)),
        Mistake("the values are projected with w_k.", lambda x, q, k, v, *rest: oracle.multi_head(x, q, k, k, *rest)),
        Mistake(
            "the weights are applied transposed.", _mha(project=lambda x, w: oracle.linear(x, oracle.transpose(w)))
        ),
        Mistake(
            "every weight is applied transposed.",
            _mha(
                project=lambda x, w: oracle.linear(x, oracle.transpose(w)),
                out=lambda x, w: oracle.linear(x, oracle.transpose(w)),
            ),
        ),
        Mistake("w_o is applied transposed.", _mha(out=lambda x, w: oracle.linear(x, oracle.transpose(w)))),
        Mistake(
            "a head takes every n-th column: it should take d_head neighbours.",
            _mha(split=_split_strided, concat=_concat_strided),
            _mha(split=_split_strided),
        ),
        Mistake(
            "the columns of the heads are shuffled into each other: keep each head's together.",
            _mha(concat=_concat_strided),
        ),
        Mistake("the heads come in reverse order.", _mha(concat=lambda heads: oracle.concat_heads(heads[::-1]))),
        Mistake(
            "the input is added to the result: the residual add comes later, in the block.",
            lambda x, *rest: oracle.add_matrices(x, oracle.multi_head(x, *rest)),
        ),
    ),
    hints=(
        "Six lines: three projections, three splits, a loop over heads, a concatenation, a projection.",
        "q, k, v = linear(x, w_q), linear(x, w_k), linear(x, w_v); then _split_heads each.",
        "Attend with q[h], k[h], v[h] and the mask for every head h; then linear(_concat_heads(heads), w_o).",
    ),
)

_Q4 = oracle.numbers(21, 4, 2, 2)
_K2 = oracle.numbers(22, 2, 3, 2)
_V2 = oracle.numbers(23, 2, 3, 2)
_ZEROS4 = [[[0.0]], [[0.0]], [[0.0]], [[0.0]]]

GROUPED_QUERY_ATTENTION = Exercise(
    name="grouped_query_attention",
    chapter=6,
    params=("q_heads", "k_heads", "v_heads", "mask"),
    oracle=oracle.grouped_query,
    needs=("scaled_dot_product_attention",),
    extension=True,
    cases=(
        Case(
            "gqa_repeats_not_tiles",
            (_ZEROS4, [[[0.0]], [[0.0]]], [[[10.0]], [[20.0]]]),
            "query heads 0 and 1 share key/value head 0, heads 2 and 3 share head 1: 10, 10, 20, 20.",
        ),
        Case("gqa_two_groups", (_Q4, _K2, _V2), "query head h uses key/value head h // (H / G)."),
        Case("gqa_one_group_is_mqa", (_Q4, _K2[:1], _V2[:1]), "with one key/value head all query heads share it."),
        Case("gqa_as_many_groups_as_heads_is_mha", (_Q4[:2], _K2, _V2), "with G = H every query head has its own."),
        Case("gqa_mask", (_Q4, _K2, _V2, [[0.0, 0.0, -oracle.INF], [0.0, 0.0, 0.0]]), "the mask holds in every head."),
        Case("gqa_rejects_indivisible", (_Q4[:3], _K2, _V2), "3 query heads cannot be shared by 2 key/value heads."),
    ),
    mistakes=(
        Mistake(
            "the key/value heads are tiled (0, 1, 0, 1): repeat each for its group (0, 0, 1, 1).",
            partial(oracle.grouped_query, group_of=lambda h, H, G: h % G),
        ),
        Mistake("every query head uses key/value head 0.", partial(oracle.grouped_query, group_of=lambda h, H, G: 0)),
        Mistake(
            "every query head uses the last key/value head.",
            partial(oracle.grouped_query, group_of=lambda h, H, G: G - 1),
        ),
        Mistake(
            "the groups are turned round.",
            partial(oracle.grouped_query, group_of=lambda h, H, G: G - 1 - h // (H // G)),
        ),
        Mistake(
            "query head h uses key/value head h // G: divide by the size of a group, H / G.",
            partial(oracle.grouped_query, group_of=lambda h, H, G: h // G),
            partial(oracle.grouped_query, group_of=lambda h, H, G: min(G - 1, h // G)),
        ),
        Mistake("the mask is left out.", lambda q, k, v, mask=None: oracle.grouped_query(q, k, v)),
        Mistake(
            "a number of query heads that the key/value heads cannot share is let through: raise ValueError.",
            partial(oracle.grouped_query, check=False, group_of=lambda h, H, G: min(G - 1, h // (H // G))),
            partial(oracle.grouped_query, check=False, group_of=lambda h, H, G: h * G // H),
        ),
        Mistake(
            "query heads without a key/value head of their own are dropped: share.",
            lambda q, k, v, mask=None: oracle.grouped_query(q[: len(k)], k, v, mask),
        ),
        Mistake(
            "the scores are not divided by √d_k.",
            partial(oracle.grouped_query, attend=partial(oracle.attention, scale=lambda d: 1.0)),
        ),
    ),
    hints=(
        "H query heads, G key/value heads: each of the latter serves H / G neighbours.",
        "Query head h attends with k_heads[h // (H // G)].",
    ),
)
