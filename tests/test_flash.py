import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import flash
from labkit.attention import scaled_dot_product_attention
from labkit.flash import (
    Partial,
    blocks,
    blocks_that_fit,
    count_tiles,
    flash_attention,
    floats_on_chip,
    log_sum_exp,
    merge,
    naive_traffic,
    online_softmax,
    partial_attention,
    reach,
    tiled_traffic,
    visible,
)
from labkit.kv_cache import grouped_query_attention
from labkit.mask import causal_mask, sliding_window_mask
from labkit.softmax import softmax

INF, NAN = np.inf, np.nan
check = settings(max_examples=40, deadline=None, derandomize=True)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def rule(T, S, causal=False, window=None):
    """Return the whole mask that `causal` and `window` stand for."""
    if window is not None:
        return sliding_window_mask(T, window, S)
    return causal_mask(T, S) if causal else np.ones((T, S), dtype=bool)


def naive_lse(q, k, may_attend, added=0.0):
    """ln Σ exp(score) of each row, one row at a time."""
    lse = np.full(len(q), -INF)
    for i, query in enumerate(q):
        scores = [query @ key / math.sqrt(len(query)) + np.broadcast_to(added, may_attend.shape)[i, j]
                  for j, key in enumerate(k) if may_attend[i, j]]  # fmt: skip
        scores = [score for score in scores if score > -INF]
        if scores:
            lse[i] = max(scores) + math.log(sum(math.exp(score - max(scores)) for score in scores))
    return lse


# --- the pieces ---------------------------------------------------------------------------------------------------


def test_online_softmax_closed_form():
    x = np.log([1.0, 2.0, 5.0, 8.0])
    for block in (1, 2, 3, 4, 9):
        assert online_softmax(x, block) == pytest.approx([1 / 16, 2 / 16, 5 / 16, 8 / 16], rel=1e-15)
        assert online_softmax(x[::-1], block) == pytest.approx([8 / 16, 5 / 16, 2 / 16, 1 / 16], rel=1e-15)
    assert online_softmax([[1002.0, 1002.0], [-5000.0, -5000.0]], 1).tolist() == [[0.5, 0.5], [0.5, 0.5]]


@check
@given(st.integers(1, 40), st.integers(1, 45), st.floats(0.01, 500), st.floats(0, 1), st.integers(0, 9))
def test_online_softmax_is_softmax(n, block, spread, masked_share, seed):
    x = spread * data(3, n, seed=seed)
    x[np.random.default_rng(seed).random((3, n)) < masked_share] = -INF
    np.testing.assert_allclose(online_softmax(x, block), softmax(x), rtol=1e-12, atol=1e-300)


def test_online_softmax_of_rows_that_fall_or_rise_steeply():
    for x in ([0.0, -5000.0, -5000.0, 0.0], [-5000.0, 0.0, 0.0, -5000.0], [0.0, -4000.0, 0.0, -8000.0]):
        for block in (1, 2, 3):
            assert online_softmax(np.array(x), block).tolist() == [0.5 * (score == 0) for score in x]


def test_online_softmax_of_rows_that_are_masked_at_first_or_throughout():
    x = np.array([[-INF, -INF, -INF, 0.0], [-INF] * 4, [0.0, -INF, -INF, -INF]])
    assert online_softmax(x, 2).tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]


def test_a_nan_stays_in_its_row():
    x = data(3, 6)
    x[1, 4] = NAN
    assert np.isnan(online_softmax(x, 2)).all(axis=1).tolist() == [False, True, False]
    assert np.array_equal(online_softmax(x, 2)[[0, 2]], online_softmax(x[[0, 2]], 2))


def test_partial_attention_closed_form():
    scores = np.array([[np.log(2), np.log(6)], [-INF, 3.0], [-INF, -INF]])
    part = partial_attention(scores, np.array([[4.0, 0.0], [8.0, -4.0]]))
    assert part.top.tolist() == [np.log(6), 3, -INF]
    assert part.total == pytest.approx([8 / 6, 1, 0], rel=1e-15)
    assert part.out == pytest.approx(np.array([[7, -3], [8, -4], [0, 0]]), rel=1e-15)
    assert log_sum_exp(part) == pytest.approx([np.log(8), 3, -INF], rel=1e-15)


def test_merge_closed_form():
    a = Partial(np.array([0.0]), np.array([3.0]), np.array([[10.0, 0.0]]))
    b = Partial(np.array([np.log(4)]), np.array([0.25]), np.array([[2.0, 8.0]]))
    part = merge(a, b)  # 3 and 1 parts
    assert part.top.tolist() == [np.log(4)]
    assert part.total == pytest.approx([1], rel=1e-15)
    assert part.out == pytest.approx(np.array([[8.0, 2.0]]), rel=1e-15)
    assert log_sum_exp(part) == pytest.approx([np.log(4)], rel=1e-15)


@check
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.floats(0.1, 300), st.integers(0, 9), st.randoms())
def test_parts_merge_in_any_order_and_grouping(sizes, spread, seed, shuffler):
    S = sum(sizes)
    scores, v = spread * data(2, 3, S, seed=seed), data(2, S, 4, seed=seed)
    scores[np.random.default_rng(seed).random(scores.shape) < 0.3] = -INF
    ends = np.cumsum(sizes)
    pieces = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    parts = [partial_attention(scores[..., piece], v[:, piece]) for piece in pieces]
    while len(parts) > 1:
        shuffler.shuffle(parts)
        parts.append(merge(parts.pop(), parts.pop()))
    whole = partial_attention(scores, v)
    np.testing.assert_allclose(parts[0].out, softmax(scores) @ v, rtol=1e-10, atol=1e-13)
    assert np.array_equal(parts[0].top, whole.top)
    np.testing.assert_allclose(parts[0].total, whole.total, rtol=1e-12)


def test_merging_with_nothing_changes_nothing():
    nothing = partial_attention(np.full((3, 2), -INF), data(2, 4))
    part = partial_attention(data(3, 5), data(5, 4))
    for merged in (merge(nothing, part), merge(part, nothing), merge(Partial(-INF, 0.0, 0.0), part)):
        for got, expected in zip(merged, part, strict=True):
            assert np.array_equal(got, expected)
    both = merge(nothing, nothing)
    assert (both.top.tolist(), both.total.tolist(), both.out.tolist()) == ([-INF] * 3, [0] * 3, [[0] * 4] * 3)


def test_the_log_sum_exp_gives_the_weights_again():
    scores, v = data(3, 9), data(9, 4)
    lse = log_sum_exp(partial_attention(scores, v))
    np.testing.assert_allclose(np.exp(scores - lse[:, None]), softmax(scores), rtol=1e-13)


# --- the whole ----------------------------------------------------------------------------------------------------

SHAPES = [(1, 1), (1, 9), (9, 1), (8, 8), (7, 13), (13, 7)]
BLOCKS = [(1, 1), (4, 4), (3, 5), (8, 2), (64, 64)]


@pytest.mark.parametrize(("T", "S"), SHAPES)
@pytest.mark.parametrize(("block_q", "block_k"), BLOCKS)
@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (False, 1), (False, 3), (True, 6)])
def test_flash_equals_naive_on_ragged_tiles(T, S, block_q, block_k, causal, window):
    q, k, v = data(T, 4), data(S, 4), data(S, 3)
    may_attend = rule(T, S, causal, window)
    out, lse = flash_attention(q, k, v, causal=causal, window=window, block_q=block_q, block_k=block_k, return_lse=True)
    assert (out.shape, lse.shape) == ((T, 3), (T,))
    np.testing.assert_allclose(out, scaled_dot_product_attention(q, k, v, may_attend), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(lse, naive_lse(q, k, may_attend), rtol=1e-12, atol=1e-14)
    alone = flash_attention(q, k, v, causal=causal, window=window, block_q=block_q, block_k=block_k)
    assert np.array_equal(alone, out)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    *(st.integers(1, 20) for _ in range(2)), *(st.integers(1, 25) for _ in range(2)), st.sampled_from([1, 2, 4]),
    st.booleans(), st.sampled_from([None, 1, 4, 30]), st.sampled_from(["none", "bool", "float", "both"]),
    st.floats(0.01, 100), st.integers(0, 9),
)  # fmt: skip
def test_flash_equals_naive_whatever_the_mask(T, S, block_q, block_k, G, causal, window, kind, spread, seed):
    q, k, v = spread * data(2, 4, T, 5, seed=seed), data(2, G, S, 5, seed=seed), data(2, G, S, 3, seed=seed)
    rng = np.random.default_rng(seed)
    may_attend, added = rng.random((2, 1, T, S)) < 0.5, 3 * rng.normal(size=(4, 1, S))
    added[rng.random(added.shape) < 0.2] = -INF
    mask = {"none": None, "bool": may_attend, "float": added, "both": np.where(may_attend, added, -INF)}[kind]
    whole = rule(T, S, causal, window)
    if mask is not None:
        whole = whole & mask if mask.dtype == bool else np.where(whole, mask, -INF)
    expected, weights = grouped_query_attention(q, k, v, whole, scale=0.3, return_weights=True)
    out, lse = flash_attention(q, k, v, mask, causal, window, 0.3, block_q, block_k, return_lse=True)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12)
    scores = 0.3 * q @ np.swapaxes(np.repeat(k, 4 // G, axis=1), -1, -2)
    again = np.exp(np.minimum(scores + np.where(weights > 0, 0 if whole.dtype == bool else whole, -INF), 1e9)
                   - np.where(lse == -INF, 0, lse)[..., None])  # fmt: skip
    np.testing.assert_allclose(again, weights, rtol=1e-8, atol=1e-12)
    assert np.array_equal(lse == -INF, ~weights.any(axis=-1))


def test_causal_is_aligned_with_the_last_key():
    v = np.arange(1.0, 6.0)[:, None]
    assert flash_attention(np.zeros((2, 1)), np.zeros((5, 1)), v, causal=True, block_q=1, block_k=2).tolist() == [
        [2.5],
        [3.0],
    ]
    out, lse = flash_attention(np.zeros((5, 1)), np.zeros((2, 1)), v[:2], causal=True, return_lse=True)
    assert out.ravel().tolist() == [0, 0, 0, 1, 1.5]  # three queries come before the first key
    assert lse.tolist() == [-INF, -INF, -INF, 0, pytest.approx(math.log(2))]


@pytest.mark.parametrize(("H", "G"), [(6, 6), (6, 3), (6, 2), (6, 1), (1, 1)])
def test_heads_are_shared_by_neighbours(H, G):
    q, k, v = data(2, H, 7, 4), data(2, G, 9, 4), data(2, G, 9, 5)
    out, lse = flash_attention(q, k, v, causal=True, block_q=3, block_k=4, return_lse=True)
    assert (out.shape, lse.shape) == ((2, H, 7, 5), (2, H, 7))
    for b, h in np.ndindex(2, H):
        alone = flash_attention(q[b, h], k[b, h * G // H], v[b, h * G // H], causal=True, return_lse=True)
        np.testing.assert_allclose(out[b, h], alone[0], rtol=1e-12)
        np.testing.assert_allclose(lse[b, h], alone[1], rtol=1e-12)


MASKS = [(), (9,), (1, 9), (7, 1), (7, 9), (4, 1, 9), (1, 7, 9), (4, 7, 9), (2, 1, 7, 9), (2, 4, 7, 9), (3, 1, 1, 7, 9)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("additive", [False, True])
def test_masks_of_every_shape(shape, additive):
    q, k, v = data(2, 4, 7, 3), data(2, 2, 9, 3), data(2, 2, 9, 5)
    mask = data(*shape, seed=3) > -0.3 if shape else np.array(True)
    if additive:
        mask = np.where(mask, data(*shape, seed=4), -INF)
    out = flash_attention(q, k, v, mask, block_q=2, block_k=4)
    expected = grouped_query_attention(q, k, v, mask)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(flash_attention(q, k, v, mask.tolist(), block_q=2, block_k=4), out, rtol=1e-15)


def test_leading_axes_broadcast_like_a_loop():
    q, k, v = data(5, 1, 4, 7, 3), data(3, 2, 9, 3), data(9, 5)
    out, lse = flash_attention(q, k, np.stack([v, v + 1]), block_q=2, block_k=4, return_lse=True)
    assert (out.shape, lse.shape) == ((5, 3, 4, 7, 5), (5, 3, 4, 7))
    for a, b, h in np.ndindex(5, 3, 4):
        expected = scaled_dot_product_attention(q[a, 0, h], k[b, h // 2], v + h // 2)
        np.testing.assert_allclose(out[a, b, h], expected, rtol=1e-12, atol=1e-14)
    one_head = flash_attention(q[0, 0], k[0, 0], v)
    np.testing.assert_allclose(one_head, scaled_dot_product_attention(q[0, 0], k[0, 0], v), rtol=1e-12)


# --- what must not leak, overflow or warn -------------------------------------------------------------------------


@pytest.mark.parametrize("additive", [False, True])
def test_tiles_that_are_fully_masked(additive):
    q, k, v = data(8, 3), data(12, 3), data(12, 2)
    may_attend = np.zeros((8, 12), dtype=bool)
    may_attend[:3, 8:] = True  # the first tiles are masked, the last one is not
    may_attend[3:5, :4] = True  # the other way round
    may_attend[5, 5] = True
    mask = np.where(may_attend, 0.0, -INF) if additive else may_attend
    out, lse = flash_attention(q, k, v, mask, block_q=2, block_k=4, return_lse=True)
    np.testing.assert_allclose(out, scaled_dot_product_attention(q, k, v, may_attend), rtol=1e-12)
    np.testing.assert_allclose(lse, naive_lse(q, k, may_attend), rtol=1e-12)
    assert not out[6:].any()
    assert lse[6:].tolist() == [-INF, -INF]
    np.testing.assert_allclose(out[5], v[5], rtol=1e-15)


@pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e308])
@pytest.mark.parametrize("how", ["bool", "float", "window"])
def test_what_is_masked_does_not_leak(junk, how):
    q, k, v = data(6, 3), data(9, 3), data(9, 2)
    options = {"block_q": 4, "block_k": 2, "return_lse": True}
    if how == "window":
        options["window"], hidden = 2, [0, 1]  # the six queries stand at 3 … 8; the first tile of keys is 2, 3
    else:
        may_attend = np.tile([False, True, True, False, True, False, True, True, False], (6, 1))
        may_attend[2] = False
        options["mask"] = np.where(may_attend, 0.0, -INF) if how == "float" else may_attend
        hidden = [0, 3, 5, 8]
    clean = flash_attention(q, k, v, **options)
    k[hidden], v[hidden] = junk, junk
    for got, expected in zip(flash_attention(q, k, v, **options), clean, strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("options", [{"causal": True}, {"window": 3}])
def test_the_future_does_not_leak(options):
    q, k, v = data(6, 3), data(9, 3), data(9, 2)
    options = options | {"block_q": 4, "block_k": 4, "return_lse": True}
    clean = flash_attention(q, k, v, **options)
    for t in range(5):  # query t stands at position 3 + t
        spoilt_k, spoilt_v = k.copy(), v.copy()
        spoilt_k[4 + t :], spoilt_v[4 + t :] = NAN, NAN
        for got, expected in zip(flash_attention(q, spoilt_k, spoilt_v, **options), clean, strict=True):
            assert np.array_equal(got[: t + 1], expected[: t + 1])
            assert np.isnan(got[t + 1 :]).all()


def test_a_nan_that_is_attended_to_shows():
    q, k, v = data(4, 3), data(6, 3), data(6, 2)
    v[4, 1] = NAN
    mask = np.ones((4, 6), dtype=bool)
    mask[:2, 4] = False
    out, lse = flash_attention(q, k, v, mask, block_q=3, block_k=2, return_lse=True)
    assert np.isnan(out).tolist() == [[False, False], [False, False], [False, True], [False, True]]
    assert np.isfinite(lse).all()
    k[1] = NAN
    out, lse = flash_attention(q, k, v, mask, block_q=3, block_k=2, return_lse=True)
    assert np.isnan(out).all()
    assert np.isnan(lse).all()
    q[2], k[1] = NAN, 0.0
    out = flash_attention(q, k, np.nan_to_num(v), mask, block_q=3, block_k=2)
    assert np.isnan(out).all(axis=1).tolist() == [False, False, True, False]


@pytest.mark.parametrize("nan_first", [True, False])
def test_a_weight_that_underflows_keeps_out_a_nan_in_either_order(nan_first):
    k, v = np.array([[0.0], [1.0]]), np.array([[NAN], [5.0]])
    if not nan_first:
        k, v = k[::-1], v[::-1]
    q = np.array([[1e4], [1.0]])
    out = flash_attention(q, k, v, block_q=2, block_k=1)
    assert np.array_equal(np.isnan(out), np.isnan(scaled_dot_product_attention(q, k, v)))
    assert np.isnan(out).ravel().tolist() == [False, True]


@pytest.mark.parametrize(("q", "k"), [([[-20000.0]], [[1.0], [0.0]]), ([[-4e9]], [[1.0], [0.0]])])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mask_beats_any_score(q, k, dtype):
    q, k, v = (np.array(each, dtype=dtype) for each in (q, k, [[1.0], [100.0]]))
    for mask in (np.array([True, False]), np.array([0.0, -INF])):
        assert flash_attention(q, k, v, mask, block_k=1).tolist() == [[1.0]]


def test_half_precision_scores_do_not_overflow():
    q, k = np.full((1, 64), 40, dtype=np.float16), np.full((2, 64), 40, dtype=np.float16)
    k[1] = 39
    v = np.array([[1.0], [7.0]], dtype=np.float16)
    out, lse = flash_attention(q, k, v, block_k=1, return_lse=True)
    assert (out.tolist(), out.dtype, lse.tolist(), lse.dtype) == ([[1.0]], np.float16, [12800.0], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_near_the_largest_float_do_not_overflow(dtype):
    largest = np.finfo(dtype).max
    q, k = data(3, 2).astype(dtype), data(50, 2).astype(dtype)
    out = flash_attention(q, k, np.full((50, 1), largest / 2), block_k=8)
    np.testing.assert_allclose(out, largest / 2, rtol=1e-5)


@pytest.mark.parametrize("spread", [1, 100, 10000])
def test_scores_that_rise_and_fall_along_the_row(spread):
    q, k, v = np.array([[1.0], [-1.0]]), spread * np.linspace(-1, 1, 37)[:, None], data(37, 3)
    np.testing.assert_allclose(
        flash_attention(q, k, v, block_k=5), scaled_dot_product_attention(q, k, v), rtol=1e-11, atol=1e-300
    )


# --- tiles --------------------------------------------------------------------------------------------------------


def test_blocks_cover_a_range_once():
    for start, stop, size in itertools.product((0, 3), (3, 4, 11), (1, 2, 4, 50)):
        cut = list(blocks(start, stop, size))
        assert [i for piece in cut for i in range(piece.start, piece.stop)] == list(range(start, stop))
        assert all(piece.stop - piece.start == size for piece in cut[:-1])
        assert all(0 < piece.stop - piece.start <= size for piece in cut)


def record(monkeypatch, q, k, v, **options):
    """Run flash_attention and return the number of queries, keys and values of every tile that it worked on."""
    tiles, whole = [], flash.partial_attention

    def watched(scores, values):
        tiles.append((*scores.shape, len(values)))
        return whole(scores, values)

    monkeypatch.setattr(flash, "partial_attention", watched)
    flash_attention(q, k, v, **options)
    monkeypatch.undo()
    return tiles


CASES = [
    (T, S, block_q, block_k, causal, window)
    for T, S in ((1, 1), (13, 7), (7, 13), (16, 16))
    for block_q, block_k in ((4, 4), (3, 5), (6, 2), (99, 99))
    for causal, window in ((False, None), (True, None), (True, 4), (False, 1))
]


@pytest.mark.parametrize(("T", "S", "block_q", "block_k", "causal", "window"), CASES)
def test_only_tiles_with_something_to_see_are_computed(monkeypatch, T, S, block_q, block_k, causal, window):
    whole = rule(T, S, causal, window)
    tiles = [
        (row, column)
        for row in range(0, T, block_q)
        for column in range(0, S, block_k)
        if whole[row : row + block_q, column : column + block_k].any()
    ]
    options = {"causal": causal, "window": window, "block_q": block_q, "block_k": block_k}
    seen = record(monkeypatch, data(T, 2), data(S, 2), data(S, 3), **options)
    shapes = [(min(block_q, T - row), min(block_k, S - column)) for row, column in tiles]
    assert seen == [(rows, columns, columns) for rows, columns in shapes]
    assert count_tiles(T, S, block_q, block_k, causal, window) == len(tiles)


@pytest.mark.parametrize(("T", "S", "block_q", "block_k", "causal", "window"), CASES)
def test_the_mask_of_a_tile_is_a_tile_of_the_mask(T, S, block_q, block_k, causal, window):
    whole = rule(T, S, causal, window)
    for rows, columns in itertools.product(blocks(0, T, block_q), blocks(0, S, block_k)):
        tile = visible(rows, columns, T, S, causal, window)
        if whole[rows, columns].all():
            assert tile is None
        else:
            assert np.array_equal(tile, whole[rows, columns])
        first, stop = reach(rows, T, S, block_k, causal, window)
        exact_first, exact_stop = reach(rows, T, S, causal=causal, window=window)
        used = np.flatnonzero(whole[rows].any(axis=0))
        assert (exact_stop > exact_first) == bool(used.size)
        if used.size:
            assert (exact_first, exact_stop) == (used[0], used[-1] + 1)
            assert first == exact_first // block_k * block_k
            assert stop == min(S, -(-exact_stop // block_k) * block_k)


def test_causal_skips_about_half_of_the_tiles():
    n = 4096 // 64
    assert count_tiles(4096, 4096) == n * n
    assert count_tiles(4096, 4096, causal=True) == n * (n + 1) // 2
    assert count_tiles(4096, 4096, window=64) == 2 * n - 1
    assert count_tiles(4096, 4096, window=1) == n
    assert count_tiles(1, 4096, causal=True) == n
    assert count_tiles(4096, 1, causal=True) == 1


# --- traffic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "S", "block_q", "block_k", "causal", "window"), CASES)
def test_tiled_traffic_is_that_of_the_loops(monkeypatch, T, S, block_q, block_k, causal, window):
    d_head, d_v, options = 2, 5, {"causal": causal, "window": window, "block_q": block_q, "block_k": block_k}
    tiles = record(monkeypatch, data(T, d_head), data(S, d_head), data(S, d_v), **options)
    moved = sum(columns * d_head + values * d_v for _, columns, values in tiles)  # keys and values of every tile
    moved += T * d_head + T * d_v  # every query in, every output out
    got = tiled_traffic(T, S, d_head, d_v=d_v, **options)
    assert (type(got), got) == (int, moved)
    assert tiled_traffic(T, S, d_head, **options) == tiled_traffic(T, S, d_head, d_v=d_head, **options)


def test_naive_traffic_is_that_of_its_steps():
    for T, S, d_head, d_v in ((5, 7, 3, 3), (64, 32, 16, 8), (1, 1, 1, 1)):
        q, k, v, scores, out = T * d_head, S * d_head, S * d_v, T * S, T * d_v
        moved = (q + k + scores) + (scores + scores) + (scores + v + out)  # three kernels, each reads and writes
        got = naive_traffic(T, S, d_head, d_v)
        assert (type(got), got) == (int, moved)
    assert naive_traffic(5, 7, 3) == naive_traffic(5, 7, 3, 3)


def test_tiled_traffic_closed_form():
    assert tiled_traffic(1000, 700, 64, block_q=64, block_k=48) == 1000 * 128 + 16 * 700 * 128
    assert tiled_traffic(1000, 700, 64, block_q=1000, block_k=700) == 1700 * 128  # one tile: everything once
    assert tiled_traffic(1000, 700, 64, block_q=64, block_k=7) == tiled_traffic(1000, 700, 64, block_q=64, block_k=700)
    whole, half = (tiled_traffic(8192, 8192, 64, causal=causal) for causal in (False, True))
    assert half / whole == pytest.approx(0.5, abs=0.01)


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_traffic_grows_as_t_squared_d_squared_over_m():
    def traffic(T, d, on_chip):
        block_q, block_k = blocks_that_fit(on_chip, d)
        return tiled_traffic(T, T, d, block_q, block_k)

    lengths, widths, memories = 2 ** np.arange(14, 19), 2 ** np.arange(5, 9), 2 ** np.arange(13, 18)
    by_length = slope(lengths, [traffic(int(T), 64, 2**15) for T in lengths])
    by_width = slope(widths, [traffic(2**18, int(d), 2**15) for d in widths])
    by_memory = slope(memories, [traffic(2**18, 64, int(m)) for m in memories])
    assert by_length == pytest.approx(2, abs=0.02)
    assert by_width == pytest.approx(2, abs=0.02)
    assert by_memory == pytest.approx(-1, abs=0.02)
    constants = [
        traffic(T, d, m) * m / (T * d) ** 2 for T in (2**16, 2**18) for d in (32, 64, 128) for m in (2**14, 2**16)
    ]
    assert 7.5 < min(constants) < max(constants) < 9
    naive = slope(lengths, [naive_traffic(int(T), int(T), 64) for T in lengths])
    assert naive == pytest.approx(2, abs=0.02)
    assert slope(widths, [naive_traffic(2**18, 2**18, int(d)) for d in widths]) < 0.02  # T² · 4, whatever the width


def test_tiling_saves_traffic_as_long_as_the_chip_is_large_against_d_squared():
    naive = naive_traffic(4096, 4096, 64)
    large, small = (tiled_traffic(4096, 4096, 64, *blocks_that_fit(m, 64)) for m in (48 * 1024, 1024))
    assert large < naive / 5
    assert small > naive  # 64² floats do not even fit


@pytest.mark.parametrize(("d_head", "d_v"), [(1, 1), (8, 8), (64, 64), (64, 16), (7, 31)])
def test_blocks_fit_and_waste_little(d_head, d_v):
    for on_chip in [2 * (d_head + d_v) + 1, 1000, 12345, 48 * 1024, 10**7]:
        if on_chip < floats_on_chip(1, 1, d_head, d_v):
            continue
        block_q, block_k = blocks_that_fit(on_chip, d_head, d_v)
        assert min(block_q, block_k) >= 1
        assert floats_on_chip(block_q, block_k, d_head, d_v) <= on_chip
        assert floats_on_chip(block_q, block_k + 1, d_head, d_v) > on_chip
    with pytest.raises(ValueError, match=f"on_chip must be at least {2 * (d_head + d_v) + 1} floats"):
        blocks_that_fit(2 * (d_head + d_v), d_head, d_v)


def test_floats_on_chip_counts_what_a_tile_holds():
    q, k, v, scores, out = 5 * 3, 7 * 3, 7 * 2, 5 * 7, 5 * 2
    assert floats_on_chip(5, 7, 3, 2) == q + k + v + scores + out
    assert floats_on_chip(5, 7, 3) == floats_on_chip(5, 7, 3, 3)


# --- all ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(dtype):
    q, k, v = (data(2, *shape).astype(dtype) for shape in ((4, 7, 3), (2, 9, 3), (2, 9, 5)))
    mask = (data(2, 4, 7, 9) > -0.5, data(7, 9).astype(dtype))
    arrays = [q, k, v, *mask]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    tolerance = 8 * np.finfo(dtype).eps
    for m in (None, *mask):
        out, lse = flash_attention(q, k, v, m, block_q=4, block_k=4, return_lse=True)
        assert (out.dtype, lse.dtype) == (dtype, np.result_type(dtype, np.float32))
        assert out.flags.writeable
        assert not any(np.shares_memory(out, each) for each in arrays)
        exact = flash_attention(*(each.astype(float) for each in (q, k, v)), m, block_q=4, block_k=4)
        np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance)
        for b in range(2):
            row = flash_attention(q[b], k[b], v[b], m[b] if np.ndim(m) == 4 else m, block_q=4, block_k=4)
            np.testing.assert_allclose(out[b], row, rtol=tolerance, atol=tolerance)
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    x = data(3, 10).astype(dtype)
    x.flags.writeable = False
    assert online_softmax(x, 4).dtype == dtype
    np.testing.assert_allclose(online_softmax(x, 4), softmax(x), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(online_softmax(x, 4)[1], online_softmax(x[1], 4), rtol=tolerance)
    part = partial_attention(x, v[0, 0, :1].repeat(10, axis=0))
    assert {each.dtype for each in (*part, *merge(part, part))} == {np.result_type(dtype, np.float32)}


def test_mixed_dtypes_and_integers():
    q, k, v = data(4, 3).astype(np.float32), data(6, 3).astype(np.float32), data(6, 2)
    assert flash_attention(q, k, v).dtype == np.float64
    np.testing.assert_allclose(flash_attention(q, k, v), scaled_dot_product_attention(q, k, v), rtol=1e-12)
    assert flash_attention(q, k, v.astype(np.float32), np.zeros((4, 6))).dtype == np.float32
    assert flash_attention(q, k, v.astype(np.float32), scale=np.float64(0.5)).dtype == np.float32
    assert flash_attention([[1, 2]], [[3, 4]], [[5, 6]]).tolist() == [[5.0, 6.0]]
    assert flash_attention([[1, 2]], [[3, 4]], [[5, 6]]).dtype == np.float64


def test_arrays_that_do_not_lie_in_one_piece():
    q, k, v = data(3, 7, 4).transpose(1, 0, 2), data(4, 3, 9).T, data(18, 3, 5)[::2]
    q, k, v = (np.moveaxis(each, 1, 0) for each in (q, np.moveaxis(k, 0, 0), v))
    assert not q.flags.c_contiguous or not k.flags.c_contiguous
    out = flash_attention(q, k, v, block_q=3, block_k=4)
    np.testing.assert_allclose(out, scaled_dot_product_attention(q, k, v), rtol=1e-12)


q, k, v = data(4, 7, 3), data(2, 9, 3), data(2, 9, 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flash_attention(q[:3], k, v), "H = 3 query heads do not split over G = 2 key/value heads"),
        (lambda: flash_attention(q[0], k, v), "H = 1 query heads do not split over G = 2"),
        (lambda: flash_attention(q, k, v[:1]), "v .* axis G is 1, but k has G = 2"),
        (lambda: flash_attention(q, k[..., :2], v), "k .* axis d_head is 2, but q has d_head = 3"),
        (lambda: flash_attention(q, k, v[:, :8]), "v .* axis S is 8, but k has S = 9"),
        (lambda: flash_attention(q[0, 0], k, v), r"q .* needs at least 3 axes, got shape \(3,\)"),
        (lambda: flash_attention(q[:, :0], k, v), "q .* axis T is empty"),
        (lambda: flash_attention(q, k[:, :0], v[:, :0]), "k .* axis S is empty"),
        (lambda: flash_attention(q.astype(complex), k, v), "q .* must hold real numbers, got dtype complex128"),
        (
            lambda: flash_attention(data(3, 4, 7, 3), data(5, 2, 9, 3), v),
            r"leading \(batch\) axes do not broadcast together: q \(3,\), k \(5,\), v \(\)",
        ),
        (lambda: flash_attention(q, k, v, np.ones((7, 9), int)), "mask must be Boolean .* got dtype int64"),
        (lambda: flash_attention(q, k, v, "causal"), "mask must be Boolean .* got dtype <U6"),
        (lambda: flash_attention(q, k, v, np.ones((9, 7), bool)), r"mask has shape \(9, 7\), .*\(2, 2, 7, 9\)"),
        (lambda: flash_attention(q[:, :1], k, v, np.ones((7, 9), bool)), r"mask has shape \(7, 9\), .*\(2, 2, 1, 9\)"),
        (lambda: flash_attention(q, k, v, np.ones((2, 7, 9), bool)), "its head axis is 2, expected 1 or H = 4"),
        (
            lambda: flash_attention(data(3, 4, 7, 3), k, v, np.ones((5, 1, 7, 9), bool)),
            r"mask has shape \(5, 1, 1, 7, 9\), which does not broadcast to the scores' \(3, 2, 2, 7, 9\)",
        ),
        (lambda: flash_attention(q, k, v, np.full((7, 9), INF)), r"got \+inf"),
        (lambda: flash_attention(1e200 * q**2, 1e200 * k**2, v), r"scores must be finite or −inf, got \+inf"),
        (lambda: flash_attention(q, k, v, scale=NAN), "scale must be a finite number, got nan"),
        (lambda: flash_attention(q, k, v, scale="1"), "scale must be a finite number, got '1'"),
        (lambda: flash_attention(q, k, v, block_q=0), "block_q must be an integer of at least 1, got 0"),
        (lambda: flash_attention(q, k, v, block_k=-1), "block_k must be an integer of at least 1, got -1"),
        (lambda: flash_attention(q, k, v, block_k=4.0), r"block_k must be an integer of at least 1, got 4\.0"),
        (lambda: flash_attention(q, k, v, window=0), "window must be an integer of at least 1, got 0"),
        (lambda: flash_attention(q, k, v, window=True), "window must be an integer of at least 1, got True"),
        (lambda: online_softmax(np.zeros((3, 0))), r"x \[\.\.\., n\] has shape \(3, 0\): axis n is empty"),
        (lambda: online_softmax(3.0), r"x \[\.\.\., n\] needs at least 1 axes"),
        (lambda: online_softmax(np.zeros(3), 0), "block must be an integer of at least 1, got 0"),
        (lambda: online_softmax(np.array([0.0, INF, 1.0]), 2), r"got \+inf"),
        (lambda: partial_attention(np.zeros((2, 3)), np.zeros((4, 2))), "v .* axis S is 4, but scores has S = 3"),
        (lambda: partial_attention(np.zeros(3), np.zeros((3, 2))), r"scores \[\.\.\., T, S\] needs at least 2 axes"),
        (lambda: partial_attention(np.array([[INF, 0.0]]), np.zeros((2, 2))), r"got \+inf"),
        (lambda: count_tiles(0, 4), "T must be an integer of at least 1, got 0"),
        (lambda: count_tiles(4, -4), "S must be an integer of at least 1, got -4"),
        (lambda: count_tiles(4, 4, block_q=0), "block_q must be an integer of at least 1, got 0"),
        (lambda: count_tiles(4, 4, window=0), "window must be an integer of at least 1, got 0"),
        (lambda: naive_traffic(4, 4, 0), "d_head must be an integer of at least 1, got 0"),
        (lambda: naive_traffic(4.5, 4, 2), r"T must be an integer of at least 1, got 4\.5"),
        (lambda: naive_traffic(4, 4, 2, 0), "d_v must be an integer of at least 1, got 0"),
        (lambda: tiled_traffic(4, 4, 0), "d_head must be an integer of at least 1, got 0"),
        (lambda: tiled_traffic(0, 4, 2), "T must be an integer of at least 1, got 0"),
        (lambda: tiled_traffic(4, 4, 2, block_k=0), "block_k must be an integer of at least 1, got 0"),
        (lambda: tiled_traffic(4, 4, 2, d_v=-1), "d_v must be an integer of at least 1, got -1"),
        (lambda: blocks_that_fit(4, 64), "on_chip must be at least 257 floats, got 4"),
        (lambda: blocks_that_fit(0, 64), "on_chip must be an integer of at least 1, got 0"),
        (lambda: blocks_that_fit(1000, 0), "d_head must be an integer of at least 1, got 0"),
        (lambda: floats_on_chip(0, 1, 1), "block_q must be an integer of at least 1, got 0"),
        (lambda: floats_on_chip(1, 1, 1, 0), "d_v must be an integer of at least 1, got 0"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- memory -------------------------------------------------------------------------------------------------------


SLACK = 50_000  # bytes of small objects that Python and NumPy keep for later, whatever the sizes


def extra_memory(q, k, v, **options):
    """Return the peak of what a call allocates beyond its output and two vectors of T numbers for each head."""
    flash_attention(q, k, v, **options)  # what is loaded at the first call is not counted
    tracemalloc.start()
    out = flash_attention(q, k, v, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - out.nbytes - 2 * out[..., 0].size * max(out.itemsize, 4)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 300}])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_temporary_grows_with_the_sequence(dtype, options):
    block, d, extra, size = 64, 32, [], max(4, np.dtype(dtype).itemsize)
    for T, S in ((512, 512), (512, 2048), (1024, 2048)):
        q, k, v = (data(n, d).astype(dtype) for n in (T, S, S))
        extra.append(extra_memory(q, k, v, block_q=block, block_k=block, **options))
        assert extra[-1] < 5 * size * block * (block + d) + SLACK
    assert max(extra) - min(extra) < SLACK
    assert 20 * extra[-1] < size * T * S  # the scores alone


def test_masks_heads_and_batches_add_no_memory():
    block, d, T, S = 64, 32, 192, 256
    q, k, v = (data(2, h, n, d).astype(np.float32) for h, n in ((6, T), (2, S), (2, S)))
    for mask in (None, data(T, S) > 0, data(2, 6, T, S).astype(np.float32), data(6, 1, S) > 0):
        assert extra_memory(q, k, v, mask=mask, block_q=block, block_k=block) < 6 * 4 * block * (block + d) + SLACK


def test_memory_grows_with_the_tile_alone():
    q, k, v = (data(1024, 32).astype(np.float32) for _ in range(3))
    small, large = (extra_memory(q, k, v, block_q=b, block_k=b) for b in (128, 512))
    assert 8 < large / small < 18
    wide, tall = (extra_memory(q, k, v, block_q=b, block_k=512 - b) for b in (32, 480))
    assert max(wide, tall) < large / 3
    naive = extra_memory(q, k, v, block_q=1024, block_k=1024)
    assert naive > 4 * 1024 * 1024
