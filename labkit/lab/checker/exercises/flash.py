"""Chapter 12: softmax one tile at a time."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake, Sign
from ..oracle import INF


class DoesNotFit(Exception):
    """More was asked for than fast memory holds."""


class FastMemory:
    """Keys and values that can be had a tile at a time only.

    It is called as `load(start, stop)`. Fast memory holds one tile: asking for more is refused, and loading the next
    tile overwrites the one before. So a function that keeps all tiles and weighs them at the end finds nothing there.
    """

    def __init__(self, k, v, room, numpy=None):
        self.k, self.v, self.room, self.numpy = k, v, room, numpy
        self.tile = ()

    def in_arrays(self, numpy):
        """Return the same memory, handing out arrays."""
        return FastMemory(self.k, self.v, self.room, numpy)

    def __call__(self, start, stop):
        """Return keys and values start … stop − 1, and forget the tile before."""
        for part in self.tile:
            self._forget(part)
        if not 0 <= start < stop <= len(self.k):
            raise IndexError(f"load({start}, {stop}) with {len(self.k)} keys")
        if stop - start > self.room:
            raise DoesNotFit(f"load({start}, {stop}) does not fit: fast memory holds {self.room} keys")
        self.tile = tuple([list(row) for row in part[start:stop]] for part in (self.k, self.v))
        if self.numpy is not None:
            self.tile = tuple(self.numpy.array(part) for part in self.tile)
        return self.tile

    def _forget(self, part):
        if self.numpy is not None:
            part[...] = math.nan
            return
        for row in part:
            row[:] = [math.nan] * len(row)


def _walk(fn, q, k, v, tile_size):
    return fn(q, FastMemory(k, v, tile_size), len(k), tile_size)


class Stream:
    """Keys and values without end, made when they are loaded: nothing of them is stored anywhere."""

    def __init__(self, numpy=None):
        self.numpy = numpy

    def in_arrays(self, numpy):
        """Return the same stream, handing out arrays."""
        return Stream(numpy)

    def __call__(self, start, stop):
        """Return keys and values start … stop − 1."""
        keys = [[math.sin(j * i) for i in (1, 2, 3, 4)] for j in range(start, stop)]
        rows = [[math.cos(j), 1.0] for j in range(start, stop)]
        return (keys, rows) if self.numpy is None else (self.numpy.array(keys), self.numpy.array(rows))


def _watched(fn, q, n_keys, tile_size):
    """Return the result, and whether the memory taken on the way stayed below what a number for each key takes."""
    import tracemalloc  # not in every Python that the rest runs in

    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        result = fn(q, Stream(), n_keys, tile_size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if not tracing:
            tracemalloc.stop()
    return {"result": result, "holds one tile at a time": peak - before < 6 * n_keys}


def _fold(fn, scores, rows, tile):
    """Fold a row of scores in, a tile at a time, and return every state on the way."""
    state, states = (-INF, 0.0, [0.0] * len(rows[0])), []
    for start in range(0, len(scores), tile):
        state = fn(*state, scores[start : start + tile], rows[start : start + tile])
        states.append(state)
    return states


_START = (-INF, 0.0, [0.0, 0.0])
_ROWS = [[1.0, 0.0], [2.0, -3.0], [4.0, 5.0], [-1.0, 0.5], [3.0, 1.0]]
_SCORES = [0.5, -1.0, 2.0, 1.0, 3.5]


def _step(**knobs):
    return partial(oracle.online_softmax_step, **knobs)


def _normalised(m, total, out, scores, rows):
    new, total, out = oracle.online_softmax_step(m, total, [v * total for v in out], scores, rows)
    return new, total, [v / total if total else 0.0 for v in out]


def _normalised_each_time(m, total, out, scores, rows):
    new, total, out = oracle.online_softmax_step(m, total, out, scores, rows)
    return new, total, [v / total if total else 0.0 for v in out]


def _forgetful(m, total, out, scores, rows):
    return oracle.online_softmax_step(-INF, 0.0, [0.0] * len(out), scores, rows)


def _unweighted(m, total, out, scores, rows):
    new, new_total, _ = oracle.online_softmax_step(m, total, out, scores, rows)
    return new, new_total, [sum(column) for column in zip(out, *rows, strict=True)]


ONLINE_SOFTMAX = Exercise(
    name="online_softmax_step",
    chapter=12,
    params=("m", "total", "out", "scores", "values"),
    oracle=oracle.online_softmax_step,
    extension=True,
    cases=(
        Case("online_softmax_first_tile", (*_START, [1.0, 3.0], _ROWS[:2]), "start: m = −inf, total = 0, out = zeros."),
        Case(
            "online_softmax_larger_score_comes",
            (0.0, 1.0, [2.0], [1.0], [[5.0]]),
            "a new maximum shrinks what was summed so far by exp(m_old − m_new).",
        ),
        Case("online_softmax_smaller_score_comes", (1.0, 2.0, [3.0], [0.0], [[5.0]]), "the old maximum stays."),
        Case(
            "online_softmax_masked_tile",
            (1.0, 2.0, [3.0], [-INF, -INF], [[5.0], [7.0]]),
            "a tile that is masked out changes nothing.",
        ),
        Case(
            "online_softmax_masked_first_tile",
            (-INF, 0.0, [0.0], [-INF], [[5.0]]),
            "−inf − (−inf) is NaN: keep the state as it was.",
        ),
        Case("online_softmax_partly_masked", (*_START, [-INF, 2.0], _ROWS[:2]), "a score of −inf adds nothing."),
        Case(
            "online_softmax_large_scores",
            (1000.0, 1.0, [2.0], [1002.0], [[1.0]]),
            "only differences from the maximum go into exp.",
        ),
        Case(
            "online_softmax_folds_tiles",
            (_SCORES, _ROWS, 2),
            "tile after tile, every state is right, also for a ragged last tile.",
            drive=_fold,
            labels=("scores", "values", "tile_size"),
        ),
    ),
    mistakes=(
        Mistake(
            "total and out are not rescaled when the maximum grows: multiply both by exp(m_old − m_new).",
            _step(rescale_total=False, rescale_out=False),
        ),
        Mistake("total is not rescaled when the maximum grows.", _step(rescale_total=False)),
        Mistake("out is not rescaled when the maximum grows.", _step(rescale_out=False)),
        Mistake("the rescaling is upside down: exp(m_old − m_new), which is at most 1.", _step(power=-1)),
        Mistake("the maximum is the new tile's only: compare it with the old one.", _step(top=lambda old, new: new)),
        Mistake("the maximum stays the first one.", _step(top=lambda old, new: new if old == -INF else old)),
        Mistake("no maximum is kept.", _step(top=lambda old, new: 0.0)),
        Mistake(
            "out is divided by total already: keep it unnormalised until the end.", _normalised, _normalised_each_time
        ),
        Mistake("the old state is forgotten.", _forgetful),
        Mistake("out is summed without weights.", _unweighted),
        Sign(
            "a tile of nothing but −inf gives NaN: keep the state as it was.",
            lambda args, expected, got: all(s == -INF for s in args[3]),
        ),
    ),
    hints=(
        "m_new = max(m, largest score). What was summed under m must be brought under m_new.",
        "shrink = exp(m − m_new); e_j = exp(score_j − m_new).",
        "total · shrink + Σ e_j; out · shrink + Σ e_j · value_j. If m_new is −inf, nothing has happened yet.",
    ),
)

_Q, _K, _V = oracle.numbers(71, 2, 4), oracle.numbers(72, 5, 4), oracle.numbers(73, 5, 3)


def _tiled(**knobs):
    return partial(oracle.tiled_attention, **knobs)


def _mean_of_tiles(q, load, n_keys, tile_size):
    out = []
    for row in q:
        parts = []
        for start in range(0, n_keys, tile_size):
            keys, rows = load(start, min(start + tile_size, n_keys))
            parts.append(oracle.attention([row], keys, rows)[0])
        out.append([oracle.mean(column) for column in zip(*parts, strict=True)])
    return out


def _copied(q, load, n_keys, tile_size):
    keys, rows = [], []
    for start in range(0, n_keys, tile_size):
        k_tile, v_tile = load(start, min(start + tile_size, n_keys))
        keys += [list(row) for row in k_tile]
        rows += [list(row) for row in v_tile]
    return oracle.attention(q, keys, rows)


def _kept(q, load, n_keys, tile_size):
    tiles = [load(start, min(start + tile_size, n_keys)) for start in range(0, n_keys, tile_size)]
    keys = [key for tile, _ in tiles for key in tile]
    return oracle.attention(q, keys, [row for _, tile in tiles for row in tile])


TILED_ATTENTION = Exercise(
    name="tiled_attention",
    chapter=12,
    params=("q", "load", "n_keys", "tile_size"),
    oracle=oracle.tiled_attention,
    needs=("online_softmax_step",),
    extension=True,
    cases=(
        Case("tiled_one_tile", (_Q[:1], _K[:2], _V[:2], 2), "one tile is plain attention.", drive=_walk),
        Case("tiled_two_tiles", (_Q[:1], _K[:4], _V[:4], 2), "two tiles give what plain attention gives.", drive=_walk),
        Case("tiled_ragged_last_tile", (_Q, _K, _V, 2), "the last tile may be smaller.", drive=_walk),
        Case("tiled_one_key_at_a_time", (_Q, _K, _V, 1), "tiles of one key.", drive=_walk),
        Case(
            "tiled_tile_larger_than_all",
            (_Q, _K[:3], _V[:3], 8),
            "a tile may be larger than what there is.",
            drive=_walk,
        ),
        Case(
            "tiled_large_scores",
            ([[40.0, 0.0]], [[20.0, 0.0], [60.0, 0.0], [59.0, 1.0]], [[1.0], [2.0], [3.0]], 1),
            "keep the running maximum.",
            drive=_walk,
        ),
        Case(
            "tiled_holds_one_tile_at_a_time",
            ([[0.5, -0.5, 1.0, 0.25]], 2000, 10),
            "of 2,000 keys no more than a tile may be held at a time, nor all their scores.",
            drive=_watched,
            labels=("q", "n_keys", "tile_size"),
        ),
    ),
    mistakes=(
        Mistake("the last division by total is missing.", _tiled(finish=lambda out, total: out)),
        Mistake("the scores are not divided by √d_k.", _tiled(scale=lambda d: 1.0)),
        Mistake("the ragged last tile is dropped.", _tiled(end=lambda n, tile: n // tile * tile)),
        Mistake("only the first tile is used.", _tiled(end=lambda n, tile: 1)),
        Mistake(
            "each tile has a softmax of its own, and the results are averaged: carry m, total and out along.",
            _mean_of_tiles,
        ),
        Mistake("only the last tile counts: carry m, total and out along.", _tiled(step=_forgetful)),
        Mistake(
            "total and out are not rescaled when the maximum grows.",
            _tiled(step=_step(rescale_total=False, rescale_out=False)),
        ),
        Mistake("all tiles are kept and weighed at the end: a tile is gone when the next is loaded.", _kept),
        Mistake("all keys, values or scores are held at once: hold one tile at a time, and m, total and out.", _copied),
        Mistake(
            "the last tile reaches past the end: stop at n_keys.",
            _tiled(until=lambda stop, n_keys: stop),
        ),
        Mistake(
            "it loads everything at once: fast memory holds tile_size keys.",
            lambda q, load, n_keys, tile_size: oracle.attention(q, *load(0, n_keys)),
        ),
    ),
    hints=(
        "For each query: start with m = −inf, total = 0, out = zeros; walk the tiles; divide out by total at the end.",
        "for start in range(0, n_keys, tile_size): k_tile, v_tile = load(start, min(start + tile_size, n_keys)).",
    ),
)
