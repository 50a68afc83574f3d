import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.attention import masked, scaled_dot_product_attention
from labkit.kv_cache import (
    KVCache,
    cache_bytes,
    cached_attention,
    decode_operations,
    grouped_query_attention,
    repeat_kv,
)
from labkit.mask import causal_mask, sliding_window_mask
from labkit.model import ModelConfig, forward, init_params, new_cache
from labkit.rope import frequencies, rotate
from labkit.softmax import softmax

INF, NAN = np.inf, np.nan
check = settings(max_examples=25, deadline=None, derandomize=True)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def naive_row(query, keys, values):
    """Let one query attend to all of a list of keys."""
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
    shares = [math.exp(score - max(scores)) for score in scores]
    return sum(share / sum(shares) * value for share, value in zip(shares, values, strict=True))


def make(n_layers=2, batch=2, n_kv_heads=2, max_len=12, d_head=4, dtype=np.float64, window=None):
    return KVCache(n_layers, batch, n_kv_heads, max_len, d_head, dtype, window)


def tokens(T, batch=2, n_kv_heads=2, d_head=4, seed=0):
    return data(batch, n_kv_heads, T, d_head, seed=seed), data(batch, n_kv_heads, T, d_head, seed=seed + 1000)


def step(cache, T, seed=0):
    """Take one step of T tokens through all layers; return what each layer got back."""
    k, v = tokens(T, cache.batch, cache.n_kv_heads, cache.d_head, seed)
    return [cache.append(layer, k + layer, v - layer) for layer in range(cache.n_layers)]


def state(cache):
    return cache.lengths.tolist(), cache._k.tolist(), cache._v.tolist(), sorted(cache._appended)


# --- shared heads -------------------------------------------------------------------------------------------------


def test_heads_are_repeated_not_tiled():
    kv = np.array([10.0, 20.0]).reshape(2, 1, 1)
    assert repeat_kv(kv, 4).ravel().tolist() == [10, 10, 20, 20]
    assert grouped_query_attention(np.ones((4, 1, 1)), kv, kv).ravel().tolist() == [10, 10, 20, 20]
    assert repeat_kv(np.array([1, 2, 3]).reshape(3, 1, 1), 6).ravel().tolist() == [1, 1, 2, 2, 3, 3]
    x = data(2, 3, 5, 4)
    repeated = repeat_kv(x, 12)
    assert repeated.shape == (2, 12, 5, 4)
    for h in range(12):
        assert np.array_equal(repeated[:, h], x[:, h // 4])
    assert np.array_equal(repeat_kv(x, 3), x)


@pytest.mark.parametrize(("H", "G"), [(6, 6), (6, 3), (6, 2), (6, 1), (1, 1)])
def test_grouped_attention_is_attention_with_repeated_heads(H, G):
    q, k, v = data(2, H, 3, 4), data(2, G, 5, 4), data(2, G, 5, 7)
    out, weights = grouped_query_attention(q, k, v, return_weights=True)
    expected = scaled_dot_product_attention(q, repeat_kv(k, H), repeat_kv(v, H), return_weights=True)
    assert (out.shape, weights.shape) == ((2, H, 3, 7), (2, H, 3, 5))
    np.testing.assert_allclose(out, expected[0], rtol=1e-13)
    np.testing.assert_allclose(weights, expected[1], rtol=1e-13)
    for b, h, t in np.ndindex(2, H, 3):
        np.testing.assert_allclose(out[b, h, t], naive_row(q[b, h, t], k[b, h * G // H], v[b, h * G // H]), rtol=1e-11)


def test_grouping_lies_between_multi_head_and_multi_query():
    q, k, v = data(4, 3, 5), data(4, 6, 5), data(4, 6, 5)
    multi_head = scaled_dot_product_attention(q, k, v)
    assert np.array_equal(grouped_query_attention(q, k, v), multi_head)
    multi_query = scaled_dot_product_attention(q, k[0], v[0])
    np.testing.assert_allclose(grouped_query_attention(q, k[:1], v[:1]), multi_query, rtol=1e-13)
    grouped = grouped_query_attention(q, k[:2], v[:2])
    assert np.abs(grouped - multi_head).max() > 0.1
    assert np.abs(grouped - multi_query).max() > 0.1


@pytest.mark.parametrize(
    "shape", [(), (6,), (5, 1), (5, 6), (1, 5, 6), (4, 1, 6), (4, 5, 6), (3, 1, 5, 6), (3, 4, 5, 6)]
)
def test_masks_of_every_shape(shape):
    q, k, v = data(3, 4, 5, 2), data(3, 2, 6, 2), data(3, 2, 6, 2)
    mask = data(*shape, seed=3) > -0.3 if shape else np.array(True)
    expected = scaled_dot_product_attention(q, repeat_kv(k, 4), repeat_kv(v, 4), mask)
    np.testing.assert_allclose(grouped_query_attention(q, k, v, mask), expected, rtol=1e-12, atol=1e-15)
    additive = np.where(mask, data(*shape, seed=4), -INF)
    expected = scaled_dot_product_attention(q, repeat_kv(k, 4), repeat_kv(v, 4), additive)
    np.testing.assert_allclose(grouped_query_attention(q, k, v, additive), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(grouped_query_attention(q, k, v, additive.tolist()), expected, rtol=1e-12, atol=1e-15)


def test_a_scale_of_ones_own_and_leading_axes_that_broadcast():
    q, k, v = data(5, 1, 4, 3, 2), data(3, 2, 6, 2), data(2, 6, 2)
    out = grouped_query_attention(q, k, v, scale=-0.7)
    assert out.shape == (5, 3, 4, 3, 2)
    for a, b in np.ndindex(5, 3):
        expected = scaled_dot_product_attention(q[a, 0], repeat_kv(k[b], 4), repeat_kv(v, 4), scale=-0.7)
        np.testing.assert_allclose(out[a, b], expected, rtol=1e-12)


@pytest.mark.parametrize("T", [1, 3, 140])
def test_values_may_have_leading_axes_that_keys_lack(T):
    q, k, v = data(2, T, 4), data(1, 6, 4), data(3, 1, 6, 2)
    out, weights = grouped_query_attention(q, k, v, return_weights=True)
    assert out.shape == (3, 2, T, 2)
    for b in range(3):
        expected, shares = scaled_dot_product_attention(q, repeat_kv(k, 2), repeat_kv(v[b], 2), return_weights=True)
        np.testing.assert_allclose(out[b], expected, rtol=1e-12)
        np.testing.assert_allclose(np.broadcast_to(weights, (3, 2, T, 6))[b], shares, rtol=1e-12)


def masks_for(T, S):
    """Return masks of every kind that may be passed for 4 query heads in groups of 2."""
    rng = np.random.default_rng([T, S])
    causal = np.arange(S) <= np.arange(T)[:, None] + S - T
    window = causal & (np.arange(S) > np.arange(T)[:, None] + S - T - 5)
    return {
        "none": None,
        "causal": causal,
        "window": window,
        "float": np.where(causal, rng.normal(size=(T, S)), -INF),
        "a head": rng.random((4, T, S)) > 0.5,
        "a batch": rng.random((3, 1, T, S)) > 0.5,
        "a row of keys": rng.random(S) > 0.3,
        "one query": rng.random((1, S)) > 0.3,
        "nothing": np.zeros((T, S), dtype=bool),
        "everything": np.ones((T, S), dtype=bool),
    }


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 9), (128, 128), (129, 129), (130, 301), (301, 130)])
@pytest.mark.parametrize("kind", masks_for(1, 1))
def test_the_order_that_suits_a_processor_changes_nothing(T, S, kind):
    q, k, v, mask = data(3, 4, T, 8), data(3, 2, S, 8), data(3, 2, S, 5, seed=1), masks_for(T, S)[kind]
    k[0, 0, -1], v[1, 1, 0] = NAN, INF  # what no query may see must not reach any, whatever the order
    plain, shares = scaled_dot_product_attention(q, repeat_kv(k, 4), repeat_kv(v, 4), mask, return_weights=True)
    out, weights = grouped_query_attention(q, k, v, mask, return_weights=True)
    np.testing.assert_allclose(out, plain, rtol=0, atol=1e-13)
    # In the row of a query that does see the NaN, a key that is left out may keep its weight of 0.
    np.testing.assert_allclose(np.where(np.isnan(shares), NAN, weights), shares, rtol=0, atol=1e-13)
    for dtype in (np.float16, np.float32):
        out = grouped_query_attention(*(each.astype(dtype) for each in (q, k, v)), mask)
        assert out.dtype == dtype


def test_blocks_leave_out_the_keys_that_no_query_sees(monkeypatch):
    shapes = []

    def record(scores, mask):
        shapes.append(scores.shape[-2:])
        return softmax(masked(scores, mask))

    monkeypatch.setattr("labkit.kv_cache._softmax_in_place", record)
    T = 300
    grouped_query_attention(data(2, T, 4), data(1, T, 4), data(1, T, 4), causal_mask(T))
    assert shapes == 2 * [(128, 128)] + 2 * [(128, 256)] + 2 * [(44, 300)]  # each head by itself
    shapes.clear()
    grouped_query_attention(data(1, T, 4), data(1, T, 4), data(1, T, 4), sliding_window_mask(T, 10))
    assert shapes == [(128, 128), (128, 137), (44, 53)]


def test_weights_that_nobody_asks_for_take_no_memory():
    T, peaks = 1024, []
    q, k = data(4, T, 8).astype(np.float32), data(1, T, 8).astype(np.float32)
    for return_weights in (True, False):
        tracemalloc.start()
        grouped_query_attention(q, k, k, causal_mask(T), return_weights=return_weights)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    everything = 4 * T * T * 4  # bytes
    assert peaks[0] > everything > 4 * peaks[1]


def test_grouping_copies_no_keys_and_values():
    q, k, v = (data(*shape).astype(np.float32) for shape in ((32, 1, 64), (4, 3000, 64), (4, 3000, 64)))
    grouped_query_attention(q, k, v)
    tracemalloc.start()
    grouped_query_attention(q, k, v)
    grouped = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    scaled_dot_product_attention(q, repeat_kv(k, 32), repeat_kv(v, 32))
    repeated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert grouped < k.nbytes
    assert repeated > 16 * k.nbytes


# --- what is asked before a step ----------------------------------------------------------------------------------


def test_positions_answer_anew_whatever_was_asked_before():
    cache = KVCache(n_layers=1, batch=2, n_kv_heads=1, max_len=9, d_head=2)
    assert cache.positions(2).tolist() == [0, 1]
    assert cache.positions(3).tolist() == [0, 1, 2]
    cache.expect([3, 1])
    assert cache.positions(3).tolist() == [[0, 1, 2], [0, 0, 0]]
    k = np.ones((2, 1, 3, 2), np.float32)
    cache.append(0, k, k)
    assert cache.positions(3).tolist() == [[3, 4, 5], [1, 2, 3]]
    cache.reset()
    assert cache.positions(3).tolist() == [0, 1, 2]


# --- one step at a time equals all at once ------------------------------------------------------------------------


def full_pass(q, k, v, freqs, window=None):
    """Attend over a whole sequence without a cache."""
    T = q.shape[-2]
    mask = causal_mask(T) if window is None else sliding_window_mask(T, window)
    return grouped_query_attention(rotate(q, 0, freqs), rotate(k, 0, freqs), v, mask)


def cached_pass(q, k, v, freqs, cache, chunks, layer_of=lambda layer: layer):
    """Attend chunk by chunk with a cache; all of its layers do the same work on other numbers."""
    outs, start = [[] for _ in range(cache.n_layers)], 0
    for T in chunks:
        now = slice(start, start + T)
        positions = cache.positions(T)
        for layer in range(cache.n_layers):
            layer = layer_of(layer)
            assert np.array_equal(cache.positions(T), positions)
            turned_q, turned_k = (rotate((x + layer)[..., now, :], positions, freqs) for x in (q, k))
            outs[layer].append(cached_attention(turned_q, turned_k, (v + layer)[..., now, :], cache, layer))
        start += T
    assert cache.length == start
    return [np.concatenate(each, axis=-2) for each in outs]


CHUNKS = [[1] * 9, [9], [5, 4], [3, 1, 1, 4], [8, 1]]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("window", [None, 1, 2, 4, 9, 50])
def test_cached_equals_full_in_steps_and_in_chunks(chunks, window):
    n_layers = 3
    q, k, v, freqs = data(2, 6, 9, 4), data(2, 3, 9, 4), data(2, 3, 9, 4), frequencies(4, base=20.0)
    cache = make(n_layers, n_kv_heads=3, max_len=9, window=window)
    outs = cached_pass(q, k, v, freqs, cache, chunks)
    for layer, out in enumerate(outs):
        np.testing.assert_allclose(
            out, full_pass(q + layer, k + layer, v + layer, freqs, window), rtol=1e-11, atol=1e-13
        )


def test_the_order_of_the_layers_does_not_matter():
    q, k, v, freqs = data(2, 2, 7, 4), data(2, 2, 7, 4), data(2, 2, 7, 4), frequencies(4)
    outs = cached_pass(q, k, v, freqs, make(3), [3, 1, 1, 2], layer_of=lambda layer: 2 - layer)
    for layer, out in enumerate(outs):
        np.testing.assert_allclose(out, full_pass(q + layer, k + layer, v + layer, freqs), rtol=1e-11, atol=1e-13)


def test_a_bidirectional_pass_is_not_what_a_cache_gives():
    q, k, v, freqs = data(2, 2, 6, 4), data(2, 2, 6, 4), data(2, 2, 6, 4), frequencies(4)
    out = cached_pass(q, k, v, freqs, make(1), [1] * 6)[0]
    bidirectional = grouped_query_attention(rotate(q, 0, freqs), rotate(k, 0, freqs), v)
    difference = np.abs(out - bidirectional).max(axis=(0, 1, 3))
    assert difference[-1] < 1e-12  # the last query sees everything either way
    assert difference[:-1].min() > 0.1


def test_positions_that_start_anew_are_not_what_a_full_pass_gives():
    q, k, v, freqs = data(2, 2, 6, 4), data(2, 2, 6, 4), data(2, 2, 6, 4), frequencies(4)
    cache, outs = make(1), []
    for t in range(6):
        q_t, k_t = (rotate(x[:, :, t : t + 1], 0, freqs) for x in (q, k))
        outs.append(cached_attention(q_t, k_t, v[:, :, t : t + 1], cache))
    assert np.abs(np.concatenate(outs, axis=2) - full_pass(q, k, v, freqs))[:, :, 1:].max() > 0.1


def test_one_decode_step_by_hand():
    cache = KVCache(n_layers=1, batch=1, n_kv_heads=1, max_len=4, d_head=1, dtype=np.float64)
    q, k, v = np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 2, 1)), np.array([3.0, 5.0]).reshape(1, 1, 2, 1)
    assert cached_attention(q, k, v, cache).ravel().tolist() == [3, 4]
    one = np.array([7.0]).reshape(1, 1, 1, 1)
    assert cached_attention(q[:, :, :1], k[:, :, :1], one, cache).ravel().tolist() == [5]
    k_last = np.array([math.log(3)]).reshape(1, 1, 1, 1)
    out = cached_attention(np.ones((1, 1, 1, 1)), k_last, one - 8, cache)  # weights 1/6, 1/6, 1/6, 3/6
    assert out.ravel() == pytest.approx([(3 + 5 + 7 - 3) / 6], rel=1e-14)


# --- positions and masks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 1, 3, 4, 20])
def test_masks_are_causal_and_aligned_with_the_newest_key(window):
    cache = make(1, max_len=20, window=window)
    seen = 0
    for T in (1, 3, 1, 5, 2, 1):
        mask, positions = cache.mask(T), cache.positions(T)
        [(k_all, v_all)] = step(cache, T)
        S = min(seen, seen if window is None else window - 1) + T
        assert mask.shape == (T, S)
        assert k_all.shape == v_all.shape == (2, 2, S, 4)
        expected = causal_mask(T, S) if window is None else sliding_window_mask(T, window, S)
        assert np.array_equal(mask, expected)
        assert positions.tolist() == list(range(seen, seen + T))
        seen += T


def test_a_window_rolls_once_past_full_and_not_when_full():
    cache = KVCache(n_layers=1, batch=1, n_kv_heads=1, max_len=10, d_head=1, dtype=np.float64, window=3)
    seen = []
    for position in range(6):
        value = np.full((1, 1, 1, 1), float(position))
        k_all, v_all = cache.append(0, value, -value)
        assert np.array_equal(k_all, -v_all)
        seen.append(k_all.ravel().tolist())
    assert seen == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_a_chunk_longer_than_the_window_keeps_its_newest_tokens():
    cache = KVCache(n_layers=1, batch=1, n_kv_heads=1, max_len=99, d_head=1, dtype=np.float64, window=3)
    assert cache.mask(8).sum(axis=1).tolist() == [1, 2, 3, 3, 3, 3, 3, 3]
    first = np.arange(8.0).reshape(1, 1, 8, 1)
    assert cache.append(0, first, first)[0].ravel().tolist() == list(range(8))
    assert cache.mask(2).astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 1]]
    second = np.array([8.0, 9.0]).reshape(1, 1, 2, 1)
    assert cache.append(0, second, second)[0].ravel().tolist() == [6, 7, 8, 9]


def test_a_window_at_least_as_long_as_the_cache_changes_nothing():
    for window in (12, 13, 1000):
        plain, windowed = make(2), make(2, window=window)
        assert windowed.nbytes == plain.nbytes
        for seed, T in enumerate((5, 1, 1, 4, 1)):
            assert np.array_equal(plain.mask(T), windowed.mask(T))
            assert np.array_equal(step(plain, T, seed), step(windowed, T, seed))


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_of_unequal_length_go_on_from_their_own_last_token(side):
    cache = make(2, batch=3)
    cache.expect([3, 1, 0], side)
    expected = [[0, 1, 2], [0, 0, 0], [0, 0, 0]]
    assert cache.positions(3).tolist() == expected
    mask = cache.mask(3)
    assert mask.shape == (3, 1, 3, 3)
    lone = [[1, 0, 0], [0, 0, 0], [0, 0, 0]] if side == "right" else [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert mask[:, 0].astype(int).tolist() == [np.tri(3, dtype=int).tolist(), lone, [[0] * 3] * 3]
    step(cache, 3)
    assert cache.lengths.tolist() == [3, 1, 0]
    assert cache.positions(1).tolist() == [[3], [1], [0]]
    assert cache.positions(2).tolist() == [[3, 4], [1, 2], [0, 1]]
    assert cache.mask(1)[:, 0, 0].astype(int).tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    step(cache, 1)
    cache.expect([0, 1, 0], side)
    step(cache, 1)
    assert cache.lengths.tolist() == [4, 3, 1]
    with pytest.raises(ValueError, match=r"no common length but \[4, 3, 1\]: use lengths"):
        cache.length  # noqa: B018


def test_expectations_last_for_one_step_through_all_layers():
    cache = make(2)
    cache.expect([1, 2])
    k, v = tokens(2)
    cache.append(0, k, v)
    assert cache.positions(2).tolist() == [[0, 0], [0, 1]]
    assert cache.lengths.tolist() == [0, 0]
    cache.append(1, k, v)
    assert cache.lengths.tolist() == [1, 2]
    step(cache, 2)
    assert cache.lengths.tolist() == [3, 4]


def test_a_later_expectation_replaces_an_earlier_one():
    cache, counts = make(1), np.array([2, 1])
    cache.expect([0, 0])
    cache.expect(counts)
    counts[:] = 0
    step(cache, 3)
    assert cache.lengths.tolist() == [2, 1]


def test_a_full_row_that_takes_no_more_does_not_stop_the_others():
    cache = make(1, max_len=4)
    cache.expect([4, 1])
    step(cache, 4)
    cache.expect([0, 2])
    assert cache.positions(2).tolist() == [[0, 0], [1, 2]]
    [(k_all, _)] = step(cache, 2, seed=5)
    assert cache.lengths.tolist() == [4, 3]
    assert np.array_equal(k_all[1, :, -3], tokens(4)[0][1, :, 0])
    assert np.array_equal(k_all[1, :, -2:], tokens(2, seed=5)[0][1])


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("options", [{}, {"window": 3}, {"positions": "learned", "norm": "layer"}])
def test_rows_of_unequal_length_through_a_whole_model(side, options):
    sizes = {"vocab_size": 50, "d_model": 12, "n_layers": 3, "n_heads": 6, "n_kv_heads": 2, "d_ff": 20, "max_len": 40}
    config = ModelConfig(**sizes, **options)
    params, rng = init_params(config, seed=1, dtype=np.float64), np.random.default_rng(0)
    prompts, answers = [rng.integers(0, 50, n) for n in (3, 7, 1)], rng.integers(0, 50, (3, 4))
    full = [forward(params, config, np.concatenate(row)) for row in zip(prompts, answers, strict=True)]
    padded, where = (
        np.zeros((3, 7), dtype=int),
        [slice(0, n) if side == "right" else slice(7 - n, 7) for n in (3, 7, 1)],
    )
    for row, prompt, place in zip(padded, prompts, where, strict=True):
        row[place] = prompt
    cache = new_cache(params, config, batch=3)
    cache.expect([3, 7, 1], side)
    logits = forward(params, config, padded, cache)
    for b, place in enumerate(where):
        np.testing.assert_allclose(logits[b, place], full[b][: len(prompts[b])], atol=1e-12)
    for t in range(4):
        logits = forward(params, config, answers[:, t : t + 1], cache)
        for b in range(3):
            np.testing.assert_allclose(logits[b, 0], full[b][len(prompts[b]) + t], atol=1e-12)
    assert cache.lengths.tolist() == [7, 11, 5]


# --- nobody else's memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("unequal", [False, True])
def test_what_is_handed_out_can_not_change_the_cache(window, unequal):
    cache = make(1, window=window)
    if unequal:
        cache.expect([1, 2])
    step(cache, 2)
    before = state(cache)
    for array in (*step(cache.fork(), 1)[0], *step(cache.fork(), 2)[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 99
    k_all, v_all = step(cache, 1)[0]
    after = state(cache)
    assert before != after
    for array in (k_all, v_all):
        while array is not None:
            if not array.flags.owndata or array.base is not None:
                try:
                    array.flags.writeable = True
                except ValueError:
                    pass
                else:
                    array[:] = 99
            array = array.base if array.base is not None and not array.base.flags.owndata else None
    cache.positions(1)[:] = 99
    cache.mask(1)[:] = False
    cache.lengths[:] = 99
    assert state(cache) == after


@pytest.mark.parametrize("window", [None, 3])
def test_what_was_handed_out_stays_as_it_was(window):
    cache = make(1, window=window)
    held = [array for T in (2, 1, 1, 3) for array in step(cache, T)[0]]
    copies = [array.copy() for array in held]
    fork = cache.fork()
    step(fork, 4, seed=1)
    step(cache, 2, seed=2)
    cache.reset()
    step(cache, 5, seed=3)
    for array, copy in zip(held, copies, strict=True):
        assert np.array_equal(array, copy)


def test_without_a_window_nothing_is_copied():
    cache = make(2)
    for T in (3, 1):
        for k_all, v_all in step(cache, T):
            assert np.shares_memory(k_all, cache._k)
            assert np.shares_memory(v_all, cache._v)
            assert not np.shares_memory(k_all, v_all)


@pytest.mark.parametrize("window", [None, 3])
def test_what_is_appended_is_copied_and_not_changed(window):
    cache, (k, v) = make(1, window=window), tokens(2)
    copies = k.copy(), v.copy()
    k.flags.writeable = v.flags.writeable = False
    cache.append(0, k, v)
    assert np.array_equal(k, copies[0])
    assert np.array_equal(v, copies[1])
    k.flags.writeable = v.flags.writeable = True
    k[:], v[:] = 99, 99
    k_all, v_all = step(cache, 1)[0]
    assert np.array_equal(k_all[:, :, :2], copies[0])
    assert np.array_equal(v_all[:, :, :2], copies[1])


@pytest.mark.parametrize("window", [None, 3])
def test_forks_go_their_own_ways(window):
    cache = make(2, window=window)
    step(cache, 4)
    fork = cache.fork()
    assert state(fork) == state(cache)
    assert not np.shares_memory(fork._k, cache._k)
    assert not np.shares_memory(fork._v, cache._v)
    before = state(cache)
    step(fork, 3, seed=1)
    fork.expect([0, 1])
    assert state(cache) == before
    assert cache.positions(1).tolist() == [4]
    forked = state(fork)
    step(cache, 2, seed=2)
    assert state(fork) == forked
    assert (fork.length, cache.length) == (7, 6)
    straight = make(2, window=window)
    step(straight, 4)
    step(straight, 2, seed=2)
    assert np.array_equal(step(straight, 1, seed=3), step(cache, 1, seed=3))


def test_a_fork_in_the_middle_of_a_step_has_the_step_to_finish_too():
    cache, (k, v) = make(2), tokens(3)
    cache.append(1, k, v)
    fork = cache.fork()
    cache.append(0, k, v)
    assert (cache.length, fork.length) == (3, 0)
    with pytest.raises(ValueError, match="layer 1 has appended in this step already"):
        fork.append(1, k, v)
    fork.append(0, k, v)
    assert fork.length == 3


@pytest.mark.parametrize("window", [None, 3])
def test_a_reset_starts_clean(window):
    used, new = make(2, window=window), make(2, window=window)
    step(used, 7, seed=9)
    used.append(0, *tokens(1))
    used.reset()
    assert state(used) == state(new)
    assert (used.length, used.positions(2).tolist()) == (0, [0, 1])
    for seed, T in enumerate((2, 1, 4)):
        assert np.array_equal(used.mask(T), new.mask(T))
        assert np.array_equal(step(used, T, seed), step(new, T, seed))
    used.expect([0, 0])
    used.reset()
    step(used, 2)
    assert used.length == 2


# --- misuse -------------------------------------------------------------------------------------------------------


def test_a_cache_takes_exactly_what_it_has_room_for():
    cache = make(2, max_len=5)
    step(cache, 3)
    for layer, T in itertools.product((0, 1), (3, 4)):
        before = state(cache)
        with pytest.raises(ValueError, match=rf"{T} more tokens overflow the cache: lengths \[3, 3\], max_len 5"):
            cache.append(layer, *tokens(T))
        assert state(cache) == before
    for ask in (cache.positions, cache.mask):
        with pytest.raises(ValueError, match="overflow"):
            ask(3)
    step(cache, 2)
    assert cache.length == 5
    with pytest.raises(ValueError, match="1 more tokens overflow the cache"):
        step(cache, 1)


def test_a_window_does_not_lift_the_limit_of_positions():
    cache = make(1, max_len=5, window=2)
    for _ in range(5):
        step(cache, 1)
    with pytest.raises(ValueError, match=r"overflow the cache: lengths \[5, 5\], max_len 5"):
        step(cache, 1)


def test_one_full_row_is_an_overflow():
    cache = make(1, max_len=5)
    cache.expect([1, 5])
    step(cache, 5)
    with pytest.raises(ValueError, match=r"overflow the cache: lengths \[1, 5\], max_len 5"):
        cache.mask(1)


@pytest.mark.parametrize("window", [None, 3])
def test_a_refused_append_changes_nothing(window):
    cache, (k, v) = make(3, window=window), tokens(2)
    step(cache, 4)
    cache.append(1, k, v)
    before = state(cache)
    for call, message in [
        (lambda: cache.append(1, k, v), r"layer 1 has appended in this step already, layers \[0, 2\] have not"),
        (lambda: cache.append(0, *tokens(1)), "T must be 2, as in the step that is under way, got 1"),
        (lambda: cache.append(0, *tokens(3)), "T must be 2, as in the step that is under way, got 3"),
        (lambda: cache.positions(1), "T must be 2, as in the step that is under way, got 1"),
        (lambda: cache.mask(3), "T must be 2, as in the step that is under way, got 3"),
        (lambda: cache.expect([1, 1]), r"expect comes before a step, but layers \[1\] have appended already"),
        (lambda: cache.append(0, k, v[:, :, :1]), "v .* axis T is 1, but k has T = 2"),
        (lambda: cache.append(0, k.astype(np.float32), v), "k must have the cache's dtype float64, got float32"),
        (lambda: cache.append(0, k, v.astype(int)), "v must have the cache's dtype float64, got int64"),
        (lambda: cache.append(3, k, v), "layer must be an integer of at least 0 and at most 2, got 3"),
        (lambda: cache.append(-1, k, v), "layer must be an integer of at least 0 and at most 2, got -1"),
        (lambda: cache.append(True, k, v), "layer must be an integer .* got True"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
        assert state(cache) == before
    assert cache.positions(2).tolist() == [4, 5]
    cache.append(2, k, v)
    cache.append(0, k, v)
    assert cache.length == 6


def test_cached_attention_checks_before_it_appends():
    cache, (k, v) = make(1), tokens(2)
    before = state(cache)
    for q, message in [
        (data(2, 3, 2, 4), "H = 3 query heads do not split over G = 2"),
        (data(2, 4, 1, 4), "axis T is 2, but q has T = 1"),
        (data(2, 4, 2, 6), "axis d_head is 4, but q has d_head = 6"),
        (data(1, 4, 2, 4), "axis B is 2, but q has B = 1"),
        (data(4, 2, 4), r"q \[B, H, T, d_head\] needs exactly 4 axes, got shape \(4, 2, 4\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            cached_attention(q, k, v, cache)
        with pytest.raises(ValueError, match="scale must be a finite number"):
            cached_attention(data(2, 4, 2, 4), k, v, cache, scale=NAN)
        assert state(cache) == before


k, v, q = data(2, 5, 4), data(2, 5, 3), data(4, 3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: repeat_kv(k, 3), "H = 3 query heads do not split over G = 2 key/value heads"),
        (lambda: repeat_kv(k, 1), "H = 1 query heads do not split over G = 2 key/value heads"),
        (lambda: repeat_kv(k, 0), "n_heads must be an integer of at least 1, got 0"),
        (lambda: repeat_kv(k, 4.0), r"n_heads must be an integer of at least 1, got 4\.0"),
        (lambda: repeat_kv(k[0], 4), r"x \[\.\.\., G, S, d_head\] needs at least 3 axes, got shape \(5, 4\)"),
        (lambda: grouped_query_attention(q[:3], k, v), "H = 3 query heads do not split over G = 2"),
        (lambda: grouped_query_attention(q[:1], k, v), "H = 1 query heads do not split over G = 2"),
        (lambda: grouped_query_attention(q, k[:1], v), "v .* axis G is 2, but k has G = 1"),
        (lambda: grouped_query_attention(q, k, v[:, :4]), "v .* axis S is 4, but k has S = 5"),
        (lambda: grouped_query_attention(q, k[..., :3], v), "k .* axis d_head is 3, but q has d_head = 4"),
        (lambda: grouped_query_attention(q[0], k, v), r"q \[\.\.\., H, T, d_head\] needs at least 3 axes"),
        (lambda: grouped_query_attention(q, k, v[0]), r"v \[\.\.\., G, S, d_v\] needs at least 3 axes"),
        (lambda: grouped_query_attention(q[:, :0], k, v), "q .* axis T is empty"),
        (lambda: grouped_query_attention(q, k[:, :0], v[:, :0]), "k .* axis S is empty"),
        (
            lambda: grouped_query_attention(data(3, 4, 3, 4), data(5, 2, 5, 4), v),
            r"leading \(batch\) axes do not broadcast together: q \(3,\), k \(5,\), v \(\)",
        ),
        (
            lambda: grouped_query_attention(q, k, v, np.ones((2, 3, 5), bool)),
            r"mask has shape \(2, 3, 5\): its head axis is 2, expected 1 or H = 4",
        ),
        (lambda: grouped_query_attention(q, k, v, np.ones((5, 3), bool)), r"mask has shape \(5, 3\)"),
        (lambda: grouped_query_attention(q, k, v, np.ones((3, 5), int)), "mask must be Boolean .* got dtype int64"),
        (lambda: grouped_query_attention(q, k, v, scale=INF), "scale must be a finite number, got inf"),
        (lambda: make(n_layers=0), "n_layers must be an integer of at least 1, got 0"),
        (lambda: make(batch=-1), "batch must be an integer of at least 1, got -1"),
        (lambda: make(n_kv_heads=2.0), r"n_kv_heads must be an integer of at least 1, got 2\.0"),
        (lambda: make(max_len=0), "max_len must be an integer of at least 1, got 0"),
        (lambda: make(d_head=True), "d_head must be an integer of at least 1, got True"),
        (lambda: make(window=0), "window must be an integer of at least 1, got 0"),
        (lambda: make(window=1.5), r"window must be an integer of at least 1, got 1\.5"),
        (lambda: make(dtype=np.int64), "dtype of a cache must be a float, got int64"),
        (lambda: make(dtype=complex), "dtype of a cache must be a float, got complex128"),
        (lambda: make().append(0, k, k), r"k \[2, 2, T, 4\] needs exactly 4 axes, got shape \(2, 5, 4\)"),
        (lambda: make(batch=3).append(0, *tokens(1)), r"k \[3, 2, T, 4\] has shape \(2, 2, 1, 4\): axis 3 is 2"),
        (lambda: make(n_kv_heads=4).append(0, *tokens(1)), "axis 4 is 2, expected 4"),
        (lambda: make(d_head=6).append(0, *tokens(1)), "axis 6 is 4, expected 6"),
        (lambda: make().append(0, *(x[:, :, :0] for x in tokens(1))), "k .* axis T is empty"),
        (lambda: make().positions(0), "T must be an integer of at least 1, got 0"),
        (lambda: make().positions(1.0), r"T must be an integer of at least 1, got 1\.0"),
        (lambda: make().mask(-2), "T must be an integer of at least 1, got -2"),
        (lambda: make().expect([1]), r"lengths must be 2 integers of at least 0, one a row, got \[1\]"),
        (lambda: make().expect(1), "lengths must be 2 integers of at least 0, one a row, got 1"),
        (lambda: make().expect([[1, 2]]), "lengths must be 2 integers"),
        (lambda: make().expect([1, -1]), r"lengths must be 2 integers of at least 0, one a row, got \[1, -1\]"),
        (lambda: make().expect([1.0, 2.0]), "lengths must be 2 integers of at least 0"),
        (lambda: make().expect([True, False]), "lengths must be 2 integers of at least 0"),
        (lambda: make().expect([1, 2], "middle"), "side must be one of 'right', 'left', got 'middle'"),
        (lambda: cache_bytes(0, 1, 1, 1), "n_layers must be an integer of at least 1, got 0"),
        (lambda: cache_bytes(1, -1, 1, 1), "n_kv_heads must be an integer of at least 1, got -1"),
        (lambda: cache_bytes(1, 1, 2.0, 1), r"d_head must be an integer of at least 1, got 2\.0"),
        (lambda: cache_bytes(1, 1, 1, 0), "context must be an integer of at least 1, got 0"),
        (lambda: cache_bytes(1, 1, 1, 1, batch=0), "batch must be an integer of at least 1, got 0"),
        (lambda: cache_bytes(1, 1, 1, 1, bytes_per_value=0), "bytes_per_value must be a finite number above 0, got 0"),
        (lambda: cache_bytes(1, 1, 1, 1, bytes_per_value=NAN), "bytes_per_value must be a finite number above 0"),
        (lambda: cache_bytes(1, 1, 1, 1, window=0), "window must be an integer of at least 1, got 0"),
        (lambda: decode_operations(0, 8, 2), "T must be an integer of at least 1, got 0"),
        (lambda: decode_operations(4, 8, 3), "d_model = 8 does not split into n_heads = 3: give d_head"),
        (lambda: decode_operations(4, 8, 4, 3), "H = 4 query heads do not split over G = 3"),
        (lambda: decode_operations(4, 8, 0), "n_heads must be an integer of at least 1, got 0"),
        (lambda: decode_operations(4, 8, 4, n_kv_heads=0), "n_kv_heads must be an integer of at least 1, got 0"),
        (lambda: decode_operations(4, 8, 4, d_head=0), "d_head must be an integer of at least 1, got 0"),
        (lambda: decode_operations(4, 8, 4, d_ff=-1), "d_ff must be an integer of at least 0, got -1"),
        (lambda: decode_operations(4, 8, 4, n_layers=1.5), r"n_layers must be an integer of at least 1, got 1\.5"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_step_may_be_longer_than_any_row_expects_but_not_shorter():
    cache = make(1)
    cache.expect([3, 1])
    with pytest.raises(ValueError, match="T must be at least 3, the real tokens that a row expects, got 2"):
        step(cache, 2)
    assert cache.lengths.tolist() == [0, 0]
    step(cache, 5)
    assert cache.lengths.tolist() == [3, 1]


# --- dtypes and inputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(dtype):
    arrays = [data(2, 4, 3, 4).astype(dtype), data(2, 2, 5, 4).astype(dtype), data(2, 2, 5, 6).astype(dtype)]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    tolerance = 8 * np.finfo(dtype).eps
    for function, n in ((grouped_query_attention, 3), (lambda x: repeat_kv(x, 6), 1)):
        mine = arrays[:n] if n > 1 else arrays[1:2]
        out = function(*mine)
        assert out.dtype == dtype
        assert not any(np.shares_memory(out, each) for each in arrays)
        np.testing.assert_allclose(
            out, function(*(each.astype(float) for each in mine)), rtol=tolerance, atol=tolerance
        )
        for b in range(2):
            np.testing.assert_allclose(out[b], function(*(each[b] for each in mine)), rtol=tolerance, atol=tolerance)
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    out, weights = grouped_query_attention(*arrays, return_weights=True)
    assert out.dtype == weights.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("window", [None, 3])
def test_a_cache_holds_and_returns_its_dtype(dtype, window):
    cache = make(1, dtype=dtype, window=window)
    q = data(2, 4, 6, 4).astype(dtype)
    k, v = (each.astype(dtype) for each in tokens(6))
    outs = [cached_attention(*(each[:, :, t : t + 1] for each in (q, k, v)), cache) for t in range(6)]
    assert {out.dtype for out in outs} == {np.dtype(dtype)}
    full = grouped_query_attention(q, k, v, causal_mask(6) if window is None else sliding_window_mask(6, 3))
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.concatenate(outs, axis=2), full, rtol=tolerance, atol=tolerance)
    assert cache.append(0, k[:, :, :1], v[:, :, :1])[0].dtype == dtype
    assert make(dtype=dtype).nbytes == 2 * 2 * 2 * 2 * 12 * 4 * np.dtype(dtype).itemsize


def test_lists_will_do():
    cache = KVCache(1, 1, 1, 4, 2, dtype=np.float64)
    k_all, v_all = cache.append(0, [[[[1.0, 2.0]]]], [[[[3.0, 4.0]]]])
    assert (k_all.tolist(), v_all.tolist()) == ([[[[1, 2]]]], [[[[3, 4]]]])


def test_the_default_dtype_is_float32():
    assert KVCache(1, 1, 1, 4, 2).dtype == np.float32


# --- bytes and operations -----------------------------------------------------------------------------------------

MODELS = {  # n_layers, n_kv_heads, d_head, as published
    "Llama-2-7B": (32, 32, 128),
    "Llama-2-70B": (80, 8, 128),
    "Llama-3-8B": (32, 8, 128),
    "Mistral-7B": (32, 8, 128),
    "GPT-2": (12, 12, 64),
}


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("Llama-2-7B", {"context": 4096}, 2 * 2**30),
        ("Llama-2-7B", {"context": 1}, 512 * 1024),
        ("Llama-2-7B", {"context": 4096, "batch": 16}, 32 * 2**30),
        ("Llama-2-7B", {"context": 4096, "bytes_per_value": 4}, 4 * 2**30),
        ("Llama-2-7B", {"context": 4096, "bytes_per_value": 1}, 2**30),
        ("Llama-2-7B", {"context": 4096, "bytes_per_value": 0.5}, 2**29),
        ("Llama-2-70B", {"context": 4096}, 1280 * 2**20),
        ("Llama-2-70B", {"context": 1}, 320 * 1024),
        ("Llama-3-8B", {"context": 8192}, 2**30),
        ("Llama-3-8B", {"context": 8192, "batch": 3}, 3 * 2**30),
        ("Mistral-7B", {"context": 32768}, 4 * 2**30),
        ("Mistral-7B", {"context": 32768, "window": 4096}, 2**29),
        ("Mistral-7B", {"context": 1000, "window": 4096}, 131072 * 1000),
        ("GPT-2", {"context": 1024}, 36 * 2**20),
        ("GPT-2", {"context": 1024, "bytes_per_value": 4}, 72 * 2**20),
    ],
)
def test_cache_bytes_of_published_models(model, options, expected):
    got = cache_bytes(*MODELS[model], **options)
    assert (type(got), got) == (int, expected)


def test_cache_bytes_rounds_a_half_byte_up():
    assert cache_bytes(1, 1, 1, 1, bytes_per_value=0.25) == 1
    assert cache_bytes(1, 1, 3, 1, bytes_per_value=0.5) == 3


@pytest.mark.parametrize("window", [None, 5, 12, 30])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_cache_takes_the_bytes_that_are_reckoned(window, dtype):
    cache = KVCache(3, 4, 2, 12, 6, dtype, window)
    size = np.dtype(dtype).itemsize
    assert cache.nbytes == cache_bytes(3, 2, 6, 12, batch=4, bytes_per_value=size, window=window)
    step_bytes = cache.nbytes
    for layer in range(3):
        cache.append(layer, *(each.astype(dtype) for each in tokens(7, 4, 2, 6)))
    assert cache.nbytes == step_bytes


def count_by_loops(T, d_model, H, G, d_head, d_ff, ffn_matrices, n_layers, cached):
    """Count every multiply-add, one matrix at a time."""
    counts = {"projections": 0, "attention": 0, "ffn": 0}
    for step in range(1, T + 1):
        for _ in range(n_layers):
            queries = 1 if cached else step
            for width in (H, G, G):
                counts["projections"] += queries * d_model * width * d_head
            counts["projections"] += queries * H * d_head * d_model
            for _ in range(H):
                for _ in range(queries):
                    counts["attention"] += step * d_head + step * d_head
            counts["ffn"] += sum(queries * d_model * d_ff for _ in range(ffn_matrices))
    return counts


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("T", "d_model", "H", "G", "d_head", "d_ff", "matrices", "n_layers"),
    [(1, 6, 2, 2, 3, 0, 3, 1), (7, 12, 4, 2, 5, 20, 3, 3), (5, 12, 6, 1, 2, 11, 2, 2), (13, 8, 2, 2, 4, 7, 0, 1)],
)
def test_operations_are_those_of_the_loops(T, d_model, H, G, d_head, d_ff, matrices, n_layers, cached):
    expected = count_by_loops(T, d_model, H, G, d_head, d_ff, matrices, n_layers, cached)
    got = decode_operations(T, d_model, H, G, d_head, d_ff, matrices, n_layers, cached)
    assert got == expected
    assert {type(count) for count in got.values()} == {int}


def test_operations_defaults():
    whole = decode_operations(5, 12, 4, 4, 3, 0, 3, 1, True)
    assert decode_operations(5, 12, 4) == whole
    assert decode_operations(5, 12, 4, d_ff=16)["ffn"] == 5 * 3 * 12 * 16


def test_what_the_cache_saves():
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 200}
    for name, power, power_cached in (("projections", 2, 1), ("ffn", 2, 1), ("attention", 3, 2)):
        for cached, expected in ((False, power), (True, power_cached)):
            few, many = (decode_operations(T, **sizes, cached=cached)[name] for T in (4096, 8192))
            assert math.log2(many / few) == pytest.approx(expected, abs=0.01)
    one = decode_operations(1, **sizes)
    assert one == decode_operations(1, **sizes, cached=False)


def test_grouping_saves_bytes_and_hardly_any_operations():
    sizes = {"T": 4096, "d_model": 8192, "n_heads": 64, "d_ff": 28672, "n_layers": 80}
    grouped, whole = (sum(decode_operations(**sizes, n_kv_heads=g).values()) for g in (8, 64))
    assert 0.88 < grouped / whole < 0.89
    assert cache_bytes(80, 8, 128, 4096) * 8 == cache_bytes(80, 64, 128, 4096)
    attention = [decode_operations(**sizes, n_kv_heads=g)["attention"] for g in (1, 8, 64)]
    assert len(set(attention)) == 1


# --- any sequence of steps, against lists -------------------------------------------------------------------------


@st.composite
def histories(draw):
    """Draw a cache's size and steps: for each the number of tokens, the real ones of each row, and the side."""
    batch, n_layers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    window = draw(st.sampled_from([None, 1, 2, 3, 5, 40]))
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        T = draw(st.integers(1, 5))
        real = draw(st.none() | st.lists(st.integers(0, T), min_size=batch, max_size=batch))
        steps.append((T, real, draw(st.sampled_from(["right", "left"]))))
    return batch, n_layers, window, steps


@settings(max_examples=60, deadline=None, derandomize=True)
@given(histories())
def test_any_history_agrees_with_lists(history):
    batch, n_layers, window, steps = history
    H, G, d = 4, 2, 3
    longest = max(sum(T if real is None else real[b] for T, real, _ in steps) for b in range(batch))
    cache = make(n_layers, batch, G, max(longest, 1), d, window=window)
    lists = [[([], []) for _ in range(batch)] for _ in range(n_layers)]
    for seed, (T, real, side) in enumerate(steps):
        if real is not None:
            cache.expect(real, side)
        counts = [T] * batch if real is None else real
        starts = [T - n if real is not None and side == "left" else 0 for n in counts]
        seen = [len(keys) for keys, _ in lists[0]]
        positions = np.broadcast_to(cache.positions(T), (batch, T))
        for layer in range(n_layers):
            q, k, v = data(batch, H, T, d, seed=seed + layer), *tokens(T, batch, G, d, seed=seed + 7 + layer)
            for b, n in enumerate(counts):  # padding that is nonsense must not matter
                padding = [t for t in range(T) if not starts[b] <= t < starts[b] + n]
                k[b, :, padding], v[b, :, padding] = NAN, INF
            out = cached_attention(q, k, v, cache, layer)
            assert out.shape == (batch, H, T, d)
            for b, n in enumerate(counts):
                keys, values = lists[layer][b]
                expected = np.zeros((H, T, d))
                for t in range(starts[b], starts[b] + n):
                    assert positions[b, t] == len(keys)
                    keys.append(k[b, :, t])
                    values.append(v[b, :, t])
                    for h in range(H):
                        reach = range(0 if window is None else max(0, len(keys) - window), len(keys))
                        expected[h, t] = naive_row(
                            q[b, h, t], [keys[s][h // 2] for s in reach], [values[s][h // 2] for s in reach]
                        )
                np.testing.assert_allclose(out[b], expected, rtol=1e-10, atol=1e-12)
        assert cache.lengths.tolist() == [n + count for n, count in zip(seen, counts, strict=True)]


@check
@given(histories())
def test_empty_slots_get_no_weight(history):
    batch, n_layers, window, steps = history
    clean, poisoned = (make(n_layers, batch, max_len=40, window=window) for _ in range(2))
    poisoned._lock(False)
    poisoned._k[:], poisoned._v[:] = NAN, NAN
    poisoned._lock(True)
    for seed, (T, real, side) in enumerate(steps):
        outs = []
        for cache in (clean, poisoned):
            if real is not None:
                cache.expect(real, side)
            k, v = tokens(T, batch, seed=seed)
            outs.append([cached_attention(data(batch, 2, T, 4), k, v, cache, layer) for layer in range(n_layers)])
        assert np.array_equal(*outs)
        assert np.isfinite(outs).all()
