import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.attention import scaled_dot_product_attention
from labkit.mask import (
    causal_mask,
    combine,
    leaks,
    padding_mask,
    padding_positions,
    sliding_window_mask,
    to_additive,
)

INF, NAN = np.inf, np.nan
check = settings(max_examples=60, deadline=None, derandomize=True)
sizes = st.integers(1, 8)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# --- causal -------------------------------------------------------------------------------------------------------


def test_causal_closed_forms():
    assert causal_mask(3).astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal_mask(2, 5).astype(int).tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert causal_mask(3, 2).astype(int).tolist() == [[0, 0], [1, 0], [1, 1]]
    assert causal_mask(1).tolist() == [[True]]
    assert causal_mask(1, 4).tolist() == [[True] * 4]
    assert causal_mask(3).dtype == bool


@check
@given(sizes, sizes)
def test_causal_mask_says_no_later_than_the_query(T, S):
    mask = causal_mask(T, S)
    assert mask.shape == (T, S)
    for i, j in np.ndindex(T, S):
        assert mask[i, j] == (j <= S - T + i)  # query i stands at position S − T + i


def test_the_last_rows_of_the_full_mask_serve_new_queries():
    for T in range(1, 7):
        assert np.array_equal(causal_mask(T, 6), causal_mask(6)[6 - T :])


def test_causal_attention_averages_what_has_come():
    q, k, v = np.zeros((2, 3)), np.zeros((5, 3)), np.arange(1.0, 6).reshape(5, 1)
    assert scaled_dot_product_attention(q, k, v, causal_mask(2, 5)).tolist() == [[2.5], [3.0]]
    v = data(4, 2)
    out = scaled_dot_product_attention(data(4, 3), data(4, 3, seed=1), v, causal_mask(4))
    assert out[0].tolist() == v[0].tolist()


# --- sliding window -----------------------------------------------------------------------------------------------


def test_window_closed_forms():
    assert sliding_window_mask(4, 2).astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert sliding_window_mask(2, 3, S=5).astype(int).tolist() == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert sliding_window_mask(3, 1).tolist() == np.eye(3, dtype=bool).tolist()
    assert sliding_window_mask(3, 2, S=2).astype(int).tolist() == [[0, 0], [1, 0], [1, 1]]


@check
@given(sizes, sizes, sizes)
def test_window_is_causal_and_holds_the_newest(T, S, window):
    mask = sliding_window_mask(T, window, S)
    assert mask.dtype == bool
    for i, j in np.ndindex(T, S):
        position = S - T + i
        assert mask[i, j] == (position - window < j <= position)
    assert mask.sum(axis=-1).max() <= window
    assert np.array_equal(sliding_window_mask(T, S, S), causal_mask(T, S))
    assert np.array_equal(sliding_window_mask(T, S + 5, S), causal_mask(T, S))


# --- padding ------------------------------------------------------------------------------------------------------


def test_padding_closed_forms():
    assert padding_mask([2, 4, 0], 4).astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert padding_mask([2, 4, 0], 4, "left").astype(int).tolist() == [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert padding_positions([2, 4, 0], 4).tolist() == [[0, 1, 0, 0], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert padding_positions([2, 4, 0], 4, side="left").tolist() == [[0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert padding_mask(1, 3).tolist() == [True, False, False]
    assert padding_positions(2, 3, "left").tolist() == [0, 0, 1]
    assert padding_mask([2], 4).dtype == bool
    assert padding_positions([2], 4).dtype.kind == "i"


@pytest.mark.parametrize("side", ["right", "left"])
@check
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_padding_counts_the_real_tokens(side, lengths):
    mask, positions = padding_mask(lengths, 6, side), padding_positions(lengths, 6, side)
    for row, where, length in zip(mask, positions, lengths, strict=True):
        assert row.sum() == length
        assert where[row].tolist() == list(range(length))
        assert not where[~row].any()
        assert np.all(row[:length] if side == "right" else row[6 - length :])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64])
def test_lengths_of_any_integer_kind(dtype):
    lengths = np.array([[2, 0], [127, 100]], dtype=dtype)
    assert padding_mask(lengths, 300, "left").sum(axis=-1).tolist() == lengths.tolist()
    assert padding_positions(lengths, 300, "left")[1, 0, -1] == 126


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_changes_nothing_for_the_real_tokens(side):
    lengths, T = [2, 5, 3], 5
    q, k, v = data(3, T, 4), data(3, T, 4, seed=1), data(3, T, 2)
    real = padding_mask(lengths, T, side)
    q[~real], k[~real], v[~real] = NAN, INF, -INF
    mask = combine(causal_mask(T), real[:, None, :])
    out = scaled_dot_product_attention(q, k, v, mask)
    for b, length in enumerate(lengths):
        alone = (q[b][real[b]], k[b][real[b]], v[b][real[b]])
        np.testing.assert_allclose(
            out[b][real[b]], scaled_dot_product_attention(*alone, causal_mask(length)), rtol=1e-12
        )


# --- additive -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, "float32"])
def test_to_additive(dtype):
    out = to_additive([[True, False], [False, True]], dtype)
    assert out.tolist() == [[0, -INF], [-INF, 0]]
    assert out.dtype == dtype
    assert to_additive(True).tolist() == 0
    assert to_additive(causal_mask(2)).dtype == np.float64


@check
@given(sizes, sizes, st.integers(0, 9))
def test_both_kinds_of_mask_mean_the_same(T, S, seed):
    q, k, v, mask = data(T, 3, seed=seed), data(S, 3, seed=seed), data(S, 2, seed=seed), data(T, S, seed=seed) > 0
    boolean, added = (scaled_dot_product_attention(q, k, v, each) for each in (mask, to_additive(mask)))
    assert np.array_equal(boolean, added)


# --- combine ------------------------------------------------------------------------------------------------------


def test_combine_closed_forms():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert combine(a, b).tolist() == [True, False, False, False]
    assert combine(a, b).dtype == bool
    assert combine(a, np.array([0.5, 1, 2, 3])).tolist() == [0.5, 1, -INF, -INF]
    assert combine(np.array([0.5, 1, 2, -INF]), a, b).tolist() == [0.5, -INF, -INF, -INF]
    assert combine(np.array([1.0, -INF]), np.array([2.0, -INF]), np.array([-4.0, 1.0])).tolist() == [-1, -INF]


def test_combine_leaves_out_none():
    a = causal_mask(3)
    assert combine() is None
    assert combine(None, None) is None
    assert np.array_equal(combine(None, a), a)
    assert np.array_equal(combine(a, None, a), a)
    assert not np.shares_memory(combine(a), a)
    added = to_additive(a)
    assert np.array_equal(combine(added), added)
    assert not np.shares_memory(combine(added), added)


def test_combine_broadcasts_and_ignores_order():
    a, b, c = causal_mask(4), padding_mask([2, 4, 3], 4)[:, None, :], data(4, 1)
    assert np.array_equal(
        combine(a, b), np.array([[[a[i, j] and b[n, 0, j] for j in range(4)] for i in range(4)] for n in range(3)])
    )
    for one, other in ((combine(a, b), combine(b, a)), (combine(a, b, c), combine(c, b, a))):
        assert np.array_equal(one, other)
    assert combine(a, b, c).shape == (3, 4, 4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_combine_keeps_the_floats_precision_and_its_inputs(dtype):
    floats, mask = data(3, 3).astype(dtype), causal_mask(3)
    floats.flags.writeable = mask.flags.writeable = False
    assert combine(mask, floats).dtype == combine(floats, floats).dtype == dtype
    lowest = np.full(2, np.finfo(dtype).min)
    assert combine(lowest, lowest).tolist() == [-INF, -INF]
    assert combine(floats, floats.astype(np.float64)).dtype == np.float64


# --- leaks --------------------------------------------------------------------------------------------------------


def attention_under(mask):
    return lambda x: scaled_dot_product_attention(x, x[..., ::-1], x, mask)


def test_a_causal_function_leaks_nothing():
    for fn in (attention_under(causal_mask(6)), lambda x: np.cumsum(x, axis=-2), lambda x: x**2, lambda x: 0 * x):
        out = leaks(fn, data(6, 3))
        assert (out.shape, out.dtype) == ((6, 6), bool)
        assert not out.any()


def test_no_mask_leaks_the_whole_future():
    assert np.array_equal(leaks(attention_under(None), data(6, 3)), ~causal_mask(6))


def test_one_leaking_cell_is_found_where_it_is():
    for i, j in ((0, 1), (2, 3), (1, 5), (0, 5), (4, 5)):
        mask = causal_mask(6)
        mask[i, j] = True
        out = leaks(attention_under(mask), data(6, 3))
        assert np.argwhere(out).tolist() == [[i, j]]


def test_a_mask_off_by_one_leaks_the_next_position():
    shifted = np.arange(5) <= np.arange(5)[:, None] + 1
    assert np.argwhere(leaks(attention_under(shifted), data(5, 3))).tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


def test_a_transposed_mask_leaks():
    assert np.array_equal(leaks(attention_under(causal_mask(5).T), data(5, 3)), ~causal_mask(5))


def test_the_past_is_no_leak():
    assert not leaks(lambda x: np.cumsum(x, axis=0) * 3 + x, data(5, 2)).any()
    only_past = leaks(lambda x: np.concatenate([x[:1], x[:-1]]), data(5, 2))
    assert not only_past.any()


def test_a_leak_through_a_norm_that_sees_no_shift():
    # adding one number to a whole vector would not be seen by this function, so noise must differ by column
    fn = lambda x: x - x.mean(axis=-1, keepdims=True) + (x - x.mean(axis=-1, keepdims=True))[::-1]  # noqa: E731
    out = leaks(fn, data(4, 3))
    assert np.argwhere(out).tolist() == [[0, 3], [1, 2]]


def test_leaks_on_token_ids():
    table = data(7, 3)
    leaky, causal = attention_under(None), attention_under(causal_mask(4))
    step = lambda ids: (ids + 1) % 7  # noqa: E731
    assert np.array_equal(leaks(lambda ids: leaky(table[ids]), [1, 5, 6, 2], perturb=step), ~causal_mask(4))
    assert not leaks(lambda ids: causal(table[ids]), [1, 5, 6, 2], perturb=step).any()
    batch = np.array([[1, 5, 6, 2], [0, 0, 0, 0]])
    assert np.array_equal(leaks(lambda ids: leaky(table[ids]), batch, perturb=step), ~causal_mask(4))


def test_leaks_with_batch_axes_and_another_axis():
    x = data(2, 5, 3)
    assert np.array_equal(leaks(attention_under(None), x), ~causal_mask(5))
    assert not leaks(attention_under(causal_mask(5)), x).any()
    reverse = lambda x: np.cumsum(x[:, :, ::-1], axis=2)[:, :, ::-1]  # noqa: E731
    assert np.array_equal(leaks(reverse, data(2, 3, 4), axis=2), ~causal_mask(4))
    assert not leaks(reverse, data(2, 3, 4), axis=1).any()


def test_a_leak_in_one_sequence_of_a_batch_is_enough():
    mask = np.stack([causal_mask(4)] * 3)
    mask[1, 0, 3] = True
    assert np.argwhere(leaks(attention_under(mask), data(3, 4, 5))).tolist() == [[0, 3]]


def test_perturbations_tolerance_and_chance():
    nearly = lambda x: np.cumsum(x, axis=0) + 1e-9 * np.cumsum(x[::-1], axis=0)[::-1]  # noqa: E731
    assert np.array_equal(leaks(nearly, data(4, 2)), ~causal_mask(4))
    assert not leaks(nearly, data(4, 2), tolerance=1e-6).any()
    given = []
    leaks(lambda x: given.append(x) or x, data(3, 2), perturb=lambda row: 10 * row)
    assert np.array_equal(given[-1], data(3, 2) * [[1], [1], [10]])
    first, second = [], []
    for seen in (first, second):
        leaks(lambda x, seen=seen: seen.append(x) or x, data(3, 2), rng=np.random.default_rng(len(seen)))
    assert np.array_equal(first[-1], second[-1])


def test_leaks_sees_nan_come_and_stay():
    stays = lambda x: np.full_like(x, NAN)  # noqa: E731
    assert not leaks(stays, data(4, 2)).any()
    spoils = lambda x: x[::-1] * np.where(x > x.max() - 1e-12, NAN, 1)  # noqa: E731
    assert leaks(spoils, data(4, 2)).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_leaks_leaves_its_input_alone_and_survives_a_function_that_does_not(dtype):
    x = (1e4 * data(4, 2)).astype(dtype)
    before = x.copy()
    x.flags.writeable = False

    def rude(given):
        given *= 0.5
        return given

    assert not leaks(rude, x).any()
    assert np.array_equal(x, before)
    assert np.array_equal(leaks(lambda x: x + x.sum(axis=0) / 4, x), ~causal_mask(4))


# --- all ----------------------------------------------------------------------------------------------------------

noise = np.random.default_rng(0)
x = data(4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: causal_mask(0), "T must be an integer of at least 1, got 0"),
        (lambda: causal_mask(-3), "T must be an integer of at least 1, got -3"),
        (lambda: causal_mask(2.0), "T must be an integer of at least 1, got 2.0"),
        (lambda: causal_mask(True), "T must be an integer of at least 1, got True"),
        (lambda: causal_mask(2, 0), "S must be an integer of at least 1, got 0"),
        (lambda: causal_mask(2, 3.5), "S must be an integer of at least 1, got 3.5"),
        (lambda: causal_mask(None), "T must be an integer of at least 1, got None"),
        (lambda: sliding_window_mask(0, 2), "T must be an integer of at least 1, got 0"),
        (lambda: sliding_window_mask(3, 0), "window must be an integer of at least 1, got 0"),
        (lambda: sliding_window_mask(3, 2.0), "window must be an integer of at least 1, got 2.0"),
        (lambda: sliding_window_mask(3, None), "window must be an integer of at least 1, got None"),
        (lambda: sliding_window_mask(3, 2, -1), "S must be an integer of at least 1, got -1"),
        (lambda: padding_mask([2, 5], 4), r"lengths must lie in 0 … 4 \(T \+ 1 = 5\), got 5"),
        (lambda: padding_mask([2, -1], 4), "lengths must lie in 0 … 4 .* got -1"),
        (lambda: padding_mask([2.0], 4), "lengths must hold integers, got dtype float64"),
        (lambda: padding_mask([True], 4), "lengths must hold integers, got dtype bool"),
        (lambda: padding_mask([2], 0), "T must be an integer of at least 1, got 0"),
        (lambda: padding_mask([2], 4, "top"), "side must be \"right\" or \"left\", got 'top'"),
        (lambda: padding_mask([2], 4, None), 'side must be "right" or "left", got None'),
        (lambda: padding_positions([2, 5], 4), "lengths must lie in 0 … 4 .* got 5"),
        (lambda: padding_positions([2.5], 4), "lengths must hold integers"),
        (lambda: padding_positions([2], 4.0), "T must be an integer of at least 1, got 4.0"),
        (lambda: padding_positions([2], 4, "both"), "side must be"),
        (lambda: to_additive([1, 0]), r"mask must be Boolean \(True = may attend\), got dtype int64"),
        (lambda: to_additive([0.0, -INF]), "mask must be Boolean .* got dtype float64"),
        (lambda: to_additive([True], int), "dtype must be a float dtype, got int64"),
        (lambda: to_additive([True], bool), "dtype must be a float dtype, got bool"),
        (lambda: combine([1, 0], [True, False]), r"mask must be Boolean .* or float \(added\), got dtype int64"),
        (lambda: combine([True], ["a"]), "mask must be Boolean .* got dtype <U1"),
        (lambda: combine([1j]), "mask must be Boolean .* got dtype complex128"),
        (lambda: combine(np.ones((2, 3), bool), np.ones((3, 2), bool)), r"broadcast together: \(2, 3\), \(3, 2\)"),
        (lambda: combine(np.ones(2), np.ones(3)), r"masks do not broadcast together: \(2,\), \(3,\)"),
        (lambda: leaks(lambda x: x[:-1], x), r"fn must return T = 4 positions along axis 0, got shape \(3, 3\)"),
        (lambda: leaks(lambda x: x.sum(), x), r"fn must return T = 4 positions along axis 0, got shape \(\)"),
        (lambda: leaks(lambda x: x + noise.normal(), x), "fn must return the same output whenever it gets the same"),
        (lambda: leaks(lambda x: x, x, perturb=lambda row: row), "perturb must change .* left position 1 as it was"),
        (lambda: leaks(lambda x: x, [1, 2, 3]), "perturb must be given for token ids"),
        (lambda: leaks(lambda x: x, np.ones(4)), r"x \[\.\.\., T, d\] needs at least 2 axes, got shape \(4,\)"),
        (lambda: leaks(lambda x: x, 3, perturb=abs), r"x \[\.\.\., T\] needs at least 1 axes"),
        (lambda: leaks(lambda x: x, np.ones((0, 3))), "x .* axis T is empty"),
        (lambda: leaks(lambda x: x, x, axis=2), "axis must be an integer of at least 0 and at most 1, got 2"),
        (lambda: leaks(lambda x: x, x, axis=-1), "axis must be an integer of at least 0 and at most 1, got -1"),
        (lambda: leaks(lambda x: x, x, tolerance=-1), "tolerance must be a finite number of at least 0, got -1"),
        (lambda: leaks(lambda x: x, x, tolerance=NAN), "tolerance must be a finite number of at least 0, got nan"),
        (lambda: leaks(lambda x: x, x, rng=0), r"rng must be a numpy\.random\.Generator, got 0"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
