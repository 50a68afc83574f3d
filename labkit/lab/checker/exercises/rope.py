"""Chapter 7: rotary positions."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake

_X = [1.0, 2.0, 3.0, 4.0]
_ROWS = oracle.numbers(41, 3, 4)
_Q, _K = [0.5, -1.0, 2.0, 1.5], [1.0, 0.5, -0.5, 2.0]


def _norms(fn, x, positions):
    return [math.hypot(*fn(list(x), pos)) for pos in positions]


def _scores(fn, q, k, pairs):
    """Return q·k with q and k rotated to each pair of positions."""
    return [sum(a * b for a, b in zip(fn(list(q), i), fn(list(k), j), strict=True)) for i, j in pairs]


def _angle(**knobs):
    """Return a rotation with another angle; it takes pos, i, d and base."""
    return partial(oracle.rotate, **knobs)


_ROTATIONS = (
    Mistake("nothing is rotated.", lambda x, pos, base=1e4: oracle.rotate(x, 0)),
    Mistake(
        "the pairs are (i, i + d/2): here they are neighbours, (2i, 2i + 1).",
        _angle(half_split=True),
    ),
    Mistake(
        "it rotates the other way: the sign of the sine is turned round.",
        _angle(angle=lambda p, i, d, b: -p * b ** (-2 * i / d)),
    ),
    Mistake("every pair turns at the same speed: θ_i = base^(−2i/d).", _angle(angle=lambda p, i, d, b: p)),
    Mistake("the exponent lacks its 2: θ_i = base^(−2i/d).", _angle(angle=lambda p, i, d, b: p * b ** (-i / d))),
    Mistake(
        "the exponent has a 2 too many: i counts pairs, θ_i = base^(−2i/d).",
        _angle(angle=lambda p, i, d, b: p * b ** (-4 * i / d)),
    ),
    Mistake(
        "the exponent is positive: later pairs must turn more slowly.",
        _angle(angle=lambda p, i, d, b: p * b ** (2 * i / d)),
    ),
    Mistake(
        "positions count from 1: position 0 must leave x as it is.",
        _angle(angle=lambda p, i, d, b: (p + 1) * b ** (-2 * i / d)),
    ),
    Mistake("the position has no effect.", _angle(angle=lambda p, i, d, b: b ** (-2 * i / d))),
    Mistake(
        "angles are in radians, not in degrees.", _angle(angle=lambda p, i, d, b: math.radians(p * b ** (-2 * i / d)))
    ),
    Mistake("the argument base is not used.", _angle(angle=lambda p, i, d, b: p * 1e4 ** (-2 * i / d))),
    Mistake(
        "the position divides the angle: multiply.",
        _angle(angle=lambda p, i, d, b: b ** (-2 * i / d) / p if p else 0.0),
    ),
    Mistake("an odd width is let through: pairs need an even one. Raise ValueError.", _angle(check=False)),
    Mistake(
        "the second entry of each pair is computed from the first one already rotated: keep the old value.",
        lambda x, pos, base=1e4: _one_after_the_other(x, pos, base),
    ),
    Mistake(
        "it adds a position vector: RoPE rotates.",
        lambda x, pos, base=1e4: oracle.add_vectors(x, oracle.rotate([0.0, 1.0] * (len(x) // 2), -pos, base)),
    ),
)


_OF_ONE_ROW = [m for m in _ROTATIONS if "base is not used" in m.message or "odd width" in m.message]


def _one_after_the_other(x, pos, base):
    d, y = len(x), list(x)
    oracle.require(d % 2 == 0, "odd")
    for i in range(0, d, 2):
        c, s = math.cos(pos * base ** (-i / d)), math.sin(pos * base ** (-i / d))
        y[i] = y[i] * c - y[i + 1] * s
        y[i + 1] = y[i] * s + y[i + 1] * c
    return y


ROPE_VECTOR = Exercise(
    name="_rope_vector",
    chapter=7,
    params=("x", "pos", "base"),
    oracle=oracle.rotate,
    cases=(
        Case("rope_vector_one_pair", ([1.0, 0.0], 1), "(1, 0) turned by 1 radian is (cos 1, sin 1)."),
        Case("rope_position_dependent", (_X, 0), "position 0 is the identity: every angle is 0."),
        Case(
            "rope_vector_neighbours_are_pairs", (_X, 1), "pairs are (x0, x1), (x2, x3), each with an angle of its own."
        ),
        Case("rope_vector_far_position", (_X, 7), "pair i turns by pos · base^(−2i/d)."),
        Case("rope_vector_six_wide", ([0.5, -1.0, 2.0, 1.5, -0.5, 1.0], 3), "pair i turns by pos · base^(−2i/d)."),
        Case("rope_vector_base", (_X, 5, 100.0), "base is an argument."),
        Case(
            "rope_preserves_norm",
            (_X, [1, 2, 50]),
            "a rotation keeps the length.",
            drive=_norms,
            labels=("x", "positions"),
        ),
        Case(
            "rope_score_depends_on_offset_only",
            (_Q, _K, [(3, 1), (9, 7), (4, 1), (104, 101), (1, 4)]),
            "q·k depends on the distance of the two positions only.",
            drive=_scores,
            labels=("q", "k", "positions"),
        ),
        Case("rope_vector_rejects_odd_width", ([1.0, 2.0, 3.0], 1), "3 entries make no pairs."),
    ),
    mistakes=_ROTATIONS,
    hints=(
        "d/2 pairs of neighbours, each a point in a plane, each turned by an angle of its own.",
        "Pair i turns by angle = pos · base^(−2i/d), with d = len(x).",
        "x[2i]·cos − x[2i+1]·sin, and x[2i]·sin + x[2i+1]·cos. Keep both old values until both new ones are there.",
    ),
)


def _rope(turn=oracle.rotate, **knobs):
    return partial(oracle.rope, turn=turn, **knobs)


ROPE = Exercise(
    name="rope",
    chapter=7,
    params=("x", "positions", "base"),
    oracle=oracle.rope,
    needs=("_rope_vector",),
    cases=(
        Case("rope_from_zero", (_ROWS, [0, 1, 2]), "row t is rotated to positions[t]."),
        Case("rope_one_row", ([[1.0, 2.0]], [2]), "row t is rotated to positions[t]."),
        Case("rope_offset", (_ROWS[:2], [5, 6]), "positions need not start at 0: with a cache they go on."),
        Case("rope_any_order", (_ROWS, [4, 0, 9]), "positions need not be in order."),
        Case("rope_base", (_ROWS[:2], [3, 1], 50.0), "base is handed on."),
        Case("rope_rejects_missing_positions", (_ROWS, [0, 1]), "3 rows, 2 positions."),
        Case("rope_rejects_too_many_positions", (_ROWS[:1], [0, 1]), "1 row, 2 positions."),
    ),
    mistakes=(
        Mistake(
            "positions are counted from 0 whatever `positions` says.",
            lambda x, positions, base=1e4: oracle.rope(x, range(len(positions)), base),
        ),
        Mistake(
            "every row is rotated to the first position.",
            lambda x, positions, base=1e4: oracle.rope(x, positions[:1] * len(positions), base),
        ),
        Mistake("the base is not handed on.", lambda x, positions, base=1e4: oracle.rope(x, positions)),
        Mistake("a missing or spare position is let through: raise ValueError.", _rope(check=False)),
        Mistake(
            "the positions are counted from the first one: they are absolute.",
            lambda x, positions, base=1e4: oracle.rope(x, [p - positions[0] for p in positions], base),
        ),
        Mistake(
            "the positions come in reverse order.", lambda x, positions, base=1e4: oracle.rope(x, positions[::-1], base)
        ),
        *(Mistake(m.message, *(_rope(turn=wrong) for wrong in m.wrongs)) for m in _ROTATIONS if m not in _OF_ONE_ROW),
    ),
    hints=(
        "One call for each row.",
        "[_rope_vector(row, pos, base) for row, pos in zip(x, positions)], after comparing their lengths.",
    ),
)

_X3 = oracle.numbers(42, 3, 8)
_WEIGHTS = tuple(oracle.numbers(seed, 8, 8, spread=0.8) for seed in (43, 44, 45, 46))
_MASK = oracle.causal_mask(3)


def _rope_mha(turn_v=False, turn_q=True, turn_k=True, turn=oracle.rope):
    def attention(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None, base=10000.0):
        def turned(rows):
            return turn(rows, positions, base)

        knobs = {"turn_q": turn_q, "turn_k": turn_k, "turn_v": turn_v}
        return oracle.multi_head(
            x, w_q, w_k, w_v, w_o, n_heads, mask, **{name: turned for name, on in knobs.items() if on}
        )

    return attention


def _before_the_split(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None, base=10000.0):
    q, k = (oracle.split_heads(oracle.rope(oracle.linear(x, w), positions, base), n_heads) for w in (w_q, w_k))
    v = oracle.split_heads(oracle.linear(x, w_v), n_heads)
    heads = [oracle.attention(a, b, c, mask) for a, b, c in zip(q, k, v, strict=True)]
    return oracle.linear(oracle.concat_heads(heads), w_o)


def _on_the_stream(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None, base=10000.0):
    return oracle.multi_head(oracle.rope(x, positions, base), w_q, w_k, w_v, w_o, n_heads, mask)


ROPE_ATTENTION = Exercise(
    name="rope_multi_head_attention",
    chapter=7,
    params=("x", "w_q", "w_k", "w_v", "w_o", "n_heads", "positions", "mask"),
    oracle=_rope_mha(),
    needs=("rope", "multi_head_attention"),
    extension=True,
    cases=(
        Case(
            "rope_attention_two_heads", (_X3[:2], *_WEIGHTS, 2, [0, 1]), "queries and keys of every head are rotated."
        ),
        Case("rope_attention_one_head", (_X3[:2], *_WEIGHTS, 1, [0, 3]), "queries and keys are rotated."),
        Case("rope_attention_causal", (_X3, *_WEIGHTS, 2, [0, 1, 2], _MASK), "the mask holds as before."),
        Case(
            "rope_attention_shift_invariant",
            (_X3, *_WEIGHTS, 2, [7, 8, 9], _MASK),
            "moving all positions together changes nothing.",
        ),
        Case("rope_attention_gap", (_X3, *_WEIGHTS, 4, [0, 5, 6], _MASK), "distances count, not the order alone."),
    ),
    mistakes=(
        Mistake("the values are rotated, too: only queries and keys are.", _rope_mha(turn_v=True)),
        Mistake("only the queries are rotated: rotate the keys as well.", _rope_mha(turn_k=False)),
        Mistake("only the keys are rotated: rotate the queries as well.", _rope_mha(turn_q=False)),
        Mistake("nothing is rotated.", _rope_mha(turn_q=False, turn_k=False)),
        Mistake(
            "the rotation comes before the split into heads: its frequencies belong to d_head, not d_model.",
            _before_the_split,
        ),
        Mistake("x is rotated, before the projections: rotate q and k after them.", _on_the_stream),
        Mistake(
            "positions are counted from 0 whatever `positions` says.",
            _rope_mha(turn=lambda rows, positions, base: oracle.rope(rows, range(len(rows)), base)),
        ),
        Mistake("the mask is left out.", lambda *args: _rope_mha()(*args[:7])),
    ),
    hints=(
        "multi_head_attention with one line more.",
        "After _split_heads, and for queries and keys only: q[h] = rope(q[h], positions).",
    ),
)
