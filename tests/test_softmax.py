import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from labkit.softmax import (
    cross_entropy,
    entropy,
    log_softmax,
    random_scores,
    saturation,
    scores_of_width,
    softmax,
    softmax_jacobian,
)

INF = np.inf
SCORES = np.array([[0.3, -1.2, 2.0, 0.0, 5.5], [-3.0, 4.0, 4.0, -INF, 1.0], [700.0, -700.0, 0.0, 699.0, -INF]])
any_scores = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=5), elements=st.floats(-50, 50))
check = settings(max_examples=40, deadline=None, derandomize=True)


def naive_softmax(row):
    top = max(row)
    if top == -INF:
        return [0.0] * len(row)
    shares = [math.exp(score - top) for score in row]
    return [share / sum(shares) for share in shares]


def each_row(function, x):
    return np.array([function(list(row)) for row in x.reshape(-1, x.shape[-1])]).reshape(x.shape)


# --- softmax ------------------------------------------------------------------------------------------------------


def test_softmax_closed_form():
    # exp(0), exp(ln 2), exp(ln 5) are 1, 2 and 5 of 8
    assert softmax(np.log([1.0, 2.0, 5.0])) == pytest.approx([1 / 8, 2 / 8, 5 / 8], rel=1e-15)
    assert softmax([0.0, math.log(3)]) == pytest.approx([0.25, 0.75], rel=1e-15)


def test_softmax_agrees_with_a_loop():
    np.testing.assert_allclose(softmax(SCORES), each_row(naive_softmax, SCORES), rtol=1e-14, atol=0)


@check
@given(any_scores)
def test_softmax_is_a_distribution_in_the_order_of_the_scores(x):
    weights = softmax(x)
    assert weights.shape == x.shape
    assert np.all(weights > 0)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-14)
    assert np.all(np.diff(np.take_along_axis(weights, np.argsort(x, axis=-1), axis=-1), axis=-1) >= 0)


@check
@given(any_scores, st.floats(-1e6, 1e6))
def test_softmax_does_not_see_a_shift(x, shift):
    np.testing.assert_allclose(softmax(x + shift), softmax(x), rtol=1e-8)


@pytest.mark.parametrize("function", [softmax, log_softmax])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3, np.int64(1)])
def test_axis(function, axis):
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    moved = np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_allclose(function(x, axis=axis), moved, rtol=1e-14)
    if function is softmax:
        np.testing.assert_allclose(softmax(x, axis=axis).sum(axis=axis), 1, rtol=1e-14)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1002.0, 1002.0], [0.5, 0.5]),
        ([1002.0, 1000.0], [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))]),
        ([-1002.0, -1002.0, -1002.0, -1002.0], [0.25] * 4),
        ([1e308, -1e308], [1.0, 0.0]),
        ([-1.7e308, 1.7e308, 1.7e308], [0.0, 0.5, 0.5]),
        ([-1e9, -4e9], [1.0, 0.0]),
        ([0.0, -INF], [1.0, 0.0]),
        ([-1e300, -INF], [1.0, 0.0]),
        ([-INF, -INF, -INF], [0.0, 0.0, 0.0]),
        ([-INF], [0.0]),
        ([-1e300], [1.0]),
    ],
)
def test_softmax_of_extreme_scores(scores, expected):
    assert softmax(np.array(scores)) == pytest.approx(expected, rel=1e-14, abs=0)


def test_softmax_of_extreme_scores_in_every_float():
    for dtype in (np.float16, np.float32, np.float64):
        largest = np.finfo(dtype).max
        assert softmax(np.array([largest, -largest, largest], dtype=dtype)).tolist() == [0.5, 0.0, 0.5]


def test_rows_of_nothing_but_minus_infinity_leave_the_others_alone():
    x = np.array([[-INF, -INF], [0.0, 0.0]])
    assert softmax(x).tolist() == [[0, 0], [0.5, 0.5]]
    assert softmax(x, axis=0).tolist() == [[0, 0], [1, 1]]
    assert log_softmax(x)[0].tolist() == [-INF, -INF]


@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_nan_stays_in_its_row(function):
    x = np.array([[np.nan, 1.0, -INF], [0.0, 1.0, 2.0], [-INF, -INF, np.nan]])
    out = function(x)
    assert np.isnan(out[[0, 2]]).all()
    assert out[1].tolist() == function(x[1]).tolist()


# --- log_softmax --------------------------------------------------------------------------------------------------


@check
@given(any_scores)
def test_log_softmax_is_the_logarithm_of_softmax(x):
    np.testing.assert_allclose(log_softmax(x), np.log(softmax(x)), rtol=1e-10, atol=1e-12)


def test_log_softmax_keeps_what_softmax_loses():
    x = np.array([0.0, -2000.0, -1e300, -INF])
    assert softmax(x)[1] == 0
    assert log_softmax(x).tolist() == [0.0, -2000.0, -1e300, -INF]
    assert log_softmax(np.array([1e308, -1e308])).tolist() == [0.0, -INF]
    assert log_softmax(np.array([65504, -65504], dtype=np.float16)).tolist() == [0.0, -INF]


def test_log_softmax_closed_form():
    assert log_softmax(np.log([1.0, 2.0, 5.0])) == pytest.approx(np.log([1 / 8, 2 / 8, 5 / 8]), rel=1e-14)


# --- entropy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "nats"),
    [
        ([0.25] * 4, math.log(4)),
        ([0.5, 0.5, 0.0], math.log(2)),
        ([0.5, 0.25, 0.25], 1.5 * math.log(2)),
        ([0.9, 0.1], -0.9 * math.log(0.9) - 0.1 * math.log(0.1)),
        ([0.0, 1.0, 0.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([1.0], 0.0),
    ],
)
def test_entropy_closed_forms(p, nats):
    h = entropy(np.array(p))
    assert h == pytest.approx(nats, rel=1e-14, abs=0)
    assert not np.signbit(h)


def test_entropy_axis_and_shape():
    p = softmax(np.random.default_rng(1).normal(size=(2, 3, 5)), axis=1)
    by_hand = [[-sum(w * math.log(w) for w in p[b, :, j]) for j in range(5)] for b in range(2)]
    np.testing.assert_allclose(entropy(p, axis=1), by_hand, rtol=1e-13)
    np.testing.assert_allclose(entropy(p, axis=-2), by_hand, rtol=1e-13)
    assert entropy(p, axis=1).shape == (2, 5)


@check
@given(any_scores)
def test_entropy_lies_between_one_hot_and_uniform(x):
    h = entropy(softmax(x))
    assert np.all((h >= 0) & (h <= math.log(x.shape[-1]) * (1 + 1e-12)))


def test_sharper_scores_have_less_entropy():
    x = np.random.default_rng(2).normal(size=7)
    entropies = [float(entropy(softmax(x * sharpness))) for sharpness in (0, 0.5, 1, 2, 8, 64)]
    assert entropies == sorted(entropies, reverse=True)
    assert entropies[0] == pytest.approx(math.log(7))


# --- softmax_jacobian ---------------------------------------------------------------------------------------------


def test_jacobian_closed_form():
    j = softmax_jacobian(np.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(j, [[0.16, -0.06, -0.1], [-0.06, 0.21, -0.15], [-0.1, -0.15, 0.25]], rtol=1e-14)


def test_jacobian_is_the_slope_of_softmax():
    x = np.random.default_rng(3).normal(size=(2, 5))
    step = 1e-6
    slopes = [(softmax(x + step * e) - softmax(x - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(softmax_jacobian(softmax(x)), np.stack(slopes, axis=-1), rtol=1e-6, atol=1e-9)


@check
@given(any_scores)
def test_jacobian_is_symmetric_and_its_rows_sum_to_zero(x):
    j = softmax_jacobian(softmax(x))
    assert j.shape == (*x.shape, x.shape[-1])
    assert np.array_equal(j, j.swapaxes(-1, -2))
    np.testing.assert_allclose(j.sum(axis=-1), 0, atol=1e-15)


def test_saturated_weights_have_no_slope():
    assert softmax_jacobian(np.array([1.0, 0.0])).tolist() == [[0, 0], [0, 0]]


# --- cross_entropy ------------------------------------------------------------------------------------------------


def test_cross_entropy_closed_forms():
    assert cross_entropy(np.log([1.0, 2.0, 5.0]), 1) == pytest.approx(math.log(4), rel=1e-14)
    assert cross_entropy(np.zeros((3, 50)), [0, 49, 7]) == pytest.approx([math.log(50)] * 3, rel=1e-14)
    assert cross_entropy(np.array([0.0, -2000.0, -INF]), 0) == 0
    assert not np.signbit(cross_entropy(np.array([0.0, -2000.0]), 0))
    assert cross_entropy(np.array([0.0, -2000.0, -INF]), 1) == 2000
    assert cross_entropy(np.array([0.0, -2000.0, -INF]), 2) == INF


def test_cross_entropy_agrees_with_a_loop():
    rng = np.random.default_rng(4)
    logits, targets = rng.normal(size=(2, 3, 7)), rng.integers(0, 7, size=(2, 3))
    naive = [[-math.log(naive_softmax(list(logits[b, t]))[targets[b, t]]) for t in range(3)] for b in range(2)]
    np.testing.assert_allclose(cross_entropy(logits, targets), naive, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_cross_entropy_takes_targets_of_any_integer_kind(dtype):
    logits = np.arange(6.0).reshape(2, 3) ** 2
    expected = cross_entropy(logits, [2, 0])
    assert cross_entropy(logits, np.array([2, 0], dtype=dtype)).tolist() == expected.tolist()


# --- random_scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_k", "mean", "std"), [(1, 0, 1), (64, 0, 1), (16, 0, 2), (9, 0.5, 1), (25, -1, 0.5)])
def test_random_scores_have_the_mean_and_variance_of_the_formula(d_k, mean, std):
    scores = random_scores(d_k, 60_000, np.random.default_rng(5), mean=mean, std=std)
    variance = d_k * (std**4 + 2 * mean**2 * std**2)
    assert scores.shape == (60_000,)
    assert scores.mean() == pytest.approx(d_k * mean**2, abs=5 * math.sqrt(variance / 60_000))
    assert scores.var() == pytest.approx(variance, rel=0.06)


def test_random_scores_come_from_the_generator_alone():
    first, again, other = (random_scores(4, 6, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert random_scores(3, 5, np.random.default_rng(0), mean=2, std=0).tolist() == [12.0] * 5


# --- scores_of_width and saturation -------------------------------------------------------------------------------


def test_scores_of_width_change_with_nothing_but_the_width():
    narrow, wide = scores_of_width(3, scaled=False), scores_of_width(4, scaled=False)
    assert narrow.shape == wide.shape == (256, 8)
    assert np.array_equal(narrow, scores_of_width(3, scaled=False))
    products = [scores_of_width(d, scaled=False) - scores_of_width(d - 1, scaled=False) for d in (2, 3, 4)]
    assert np.abs(np.corrcoef([each.ravel() for each in products]) - np.eye(3)).max() < 0.1
    np.testing.assert_allclose(scores_of_width(9), scores_of_width(9, scaled=False) / 3, rtol=1e-13)
    assert np.linalg.matrix_rank(scores_of_width(1, scaled=False)) == 8  # each query has keys of its own


@pytest.mark.parametrize("d_k", [1, 16, 64, 1024])
def test_scores_of_width_have_the_variance_of_the_argument(d_k):
    assert scores_of_width(d_k, scaled=False).var() == pytest.approx(d_k, rel=0.2)
    assert scores_of_width(d_k).var() == pytest.approx(1, rel=0.2)


def test_saturation_closed_form():
    # weights ½, ½ and ¾, ¼: gradients ¼ and 3/16
    scores = np.array([[2.0, 2.0], [math.log(3), 0.0]])
    measured = saturation(scores)
    assert list(measured) == ["score variance", "entropy", "largest gradient"]
    assert measured["score variance"] == pytest.approx(np.mean((scores - scores.mean()) ** 2), rel=1e-14)
    assert measured["entropy"] == pytest.approx((math.log(2) + 2 * math.log(2) - 0.75 * math.log(3)) / 2, rel=1e-13)
    assert measured["largest gradient"] == pytest.approx((1 / 4 + 3 / 16) / 2, rel=1e-14)


def test_the_largest_gradient_is_that_of_a_weight_by_its_own_score():
    # ∂p_0/∂s_0 = 0.45 · 0.55 against ∂p_0/∂s_1 = −0.45 · 0.45 and ∂p_2/∂s_2 = 0.1 · 0.9
    assert saturation(np.log([0.45, 0.45, 0.1]))["largest gradient"] == pytest.approx(0.2475, rel=1e-12)


def test_width_saturates_and_the_scale_prevents_it():
    raw, scaled = ([saturation(scores_of_width(d, scaled=s)) for d in (1, 16, 256)] for s in (False, True))
    assert [each["entropy"] for each in raw] == sorted((each["entropy"] for each in raw), reverse=True)
    assert raw[2]["entropy"] < 0.3 < 1.5 < scaled[2]["entropy"]
    assert raw[2]["largest gradient"] < 0.6 * scaled[2]["largest gradient"]


# --- all ----------------------------------------------------------------------------------------------------------

ONE_ARRAY = [softmax, log_softmax, entropy, softmax_jacobian, lambda p: cross_entropy(p, np.zeros(p.shape[:-1], int))]


@pytest.mark.parametrize("function", ONE_ARRAY)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_in_is_dtype_out(function, dtype):
    p = softmax(np.random.default_rng(6).normal(size=(2, 3, 5))).astype(dtype)
    out = function(p)
    assert out.dtype == dtype
    np.testing.assert_allclose(
        out, function(p.astype(np.float64)), rtol=4 * np.finfo(dtype).eps, atol=1e-3 * (dtype == np.float16)
    )
    assert function(p[0, 0]).dtype == dtype


@pytest.mark.parametrize("function", ONE_ARRAY)
def test_integers_become_float64(function):
    assert function(np.array([[1, 0, 0]])).dtype == np.float64
    assert function(np.array([[True, False]])).dtype == np.float64


@pytest.mark.parametrize("function", ONE_ARRAY)
def test_leading_axes_are_a_loop_and_inputs_stay(function):
    p = softmax(np.random.default_rng(7).normal(size=(2, 3, 5)))
    before = p.copy()
    p.flags.writeable = False
    out = function(p)
    assert np.array_equal(p, before)
    assert not np.shares_memory(out, p)
    for b, t in np.ndindex(2, 3):
        np.testing.assert_allclose(out[b, t], function(p[b, t]), rtol=1e-14)


def test_many_small_shares_add_up_in_half_precision():
    # 70,000 shares of 1/70,000 each: a float16 sum would overflow, and a share is below its normal numbers
    weights = softmax(np.zeros(70_000, dtype=np.float16))
    assert float(weights[0]) == pytest.approx(1 / 70_000, rel=5e-3)
    assert float(entropy(softmax(np.zeros(5000, dtype=np.float16)))) == pytest.approx(math.log(5000), rel=2e-3)


rng = np.random.default_rng(8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax(3.0), r"x \[\.\.\., n\] needs at least 1 axes, got shape \(\)"),
        (lambda: softmax([]), r"x .*shape \(0,\): axis n is empty"),
        (lambda: softmax(np.zeros((3, 0))), "axis n is empty"),
        (lambda: softmax(np.zeros((0, 3)), axis=0), "axis n is empty"),
        (lambda: softmax(np.zeros((2, 3)), axis=2), "axis must be an integer of at least -2 and at most 1, got 2"),
        (lambda: softmax(np.zeros((2, 3)), axis=-3), "axis must be an integer .* got -3"),
        (lambda: softmax(np.zeros((2, 3)), axis=None), "axis must be an integer .* got None"),
        (lambda: softmax(np.zeros((2, 3)), axis=1.0), "axis must be an integer .* got 1.0"),
        (lambda: softmax(np.zeros((2, 3)), axis=True), "axis must be an integer .* got True"),
        (lambda: softmax(np.zeros((2, 3)), axis=(0, 1)), "axis must be an integer"),
        (lambda: softmax(["a", "b"]), "x .* must hold real numbers, got dtype <U1"),
        (lambda: softmax(np.array([1j, 0])), "x .* must hold real numbers, got dtype complex128"),
        (lambda: softmax(np.array([None, 1.0])), "x .* must hold real numbers, got dtype object"),
        (lambda: softmax([0.0, INF]), r"x must hold finite scores or −inf, got \+inf"),
        (lambda: softmax([[0.0, 1.0], [INF, -INF]]), r"got \+inf"),
        (lambda: log_softmax([0.0, INF]), r"x must hold finite scores or −inf, got \+inf"),
        (lambda: log_softmax(np.zeros((3, 0))), "axis n is empty"),
        (lambda: log_softmax(np.zeros(3), axis=1), "axis must be an integer of at least -1 and at most 0, got 1"),
        (lambda: entropy(0.5), r"p \[\.\.\., n\] needs at least 1 axes"),
        (lambda: entropy(np.zeros((2, 0))), "p .*axis n is empty"),
        (lambda: entropy([0.5, -0.25]), "p must hold weights of at least 0, got -0.25"),
        (lambda: entropy([np.nan, -0.25]), "p must hold weights of at least 0, got -0.25"),
        (lambda: entropy([0.5, 0.5], axis=1), "axis must be an integer"),
        (lambda: softmax_jacobian(1.0), r"p \[\.\.\., n\] needs at least 1 axes"),
        (lambda: softmax_jacobian(np.zeros((2, 0))), "axis n is empty"),
        (lambda: softmax_jacobian(["a"]), "p .* must hold real numbers"),
        (lambda: cross_entropy(np.zeros((2, 3)), [0]), r"targets has shape \(1,\), expected .* row of logits: \(2,\)"),
        (lambda: cross_entropy(np.zeros((2, 3)), 0), r"targets has shape \(\)"),
        (lambda: cross_entropy(np.zeros((2, 3)), [[0], [1]]), r"targets has shape \(2, 1\)"),
        (lambda: cross_entropy(np.zeros((2, 3)), [0, 3]), r"targets must lie in 0 … 2 \(vocab_size = 3\), got 3"),
        (lambda: cross_entropy(np.zeros((2, 3)), [0, -1]), "targets must lie in 0 … 2 .* got -1"),
        (lambda: cross_entropy(np.zeros((2, 3)), [0.0, 1.0]), "targets must hold integers, got dtype float64"),
        (lambda: cross_entropy(np.zeros((2, 3)), [True, False]), "targets must hold integers, got dtype bool"),
        (lambda: cross_entropy(np.zeros((2, 0)), [0, 0]), "logits .* axis vocab_size is empty"),
        (lambda: cross_entropy(0.0, 0), r"logits \[\.\.\., vocab_size\] needs at least 1 axes"),
        (lambda: cross_entropy([0.0, INF], 0), r"got \+inf"),
        (lambda: random_scores(0, 4, rng), "d_k must be an integer of at least 1, got 0"),
        (lambda: random_scores(4, -1, rng), "n must be an integer of at least 1, got -1"),
        (lambda: random_scores(4.0, 4, rng), "d_k must be an integer of at least 1, got 4.0"),
        (lambda: random_scores(True, 4, rng), "d_k must be an integer of at least 1, got True"),
        (lambda: random_scores(4, 4, rng, mean=np.nan), "mean must be a finite number, got nan"),
        (lambda: random_scores(4, 4, rng, std=INF), "std must be a finite number of at least 0, got inf"),
        (lambda: random_scores(4, 4, rng, std=-1), "std must be a finite number of at least 0, got -1"),
        (lambda: random_scores(4, 4, 0), r"rng must be a numpy\.random\.Generator, got 0"),
        (lambda: scores_of_width(0), "d_k must be an integer of at least 1 and at most 1024, got 0"),
        (lambda: scores_of_width(1025), "d_k must be an integer of at least 1 and at most 1024, got 1025"),
        (lambda: scores_of_width(8.0), "d_k must be an integer .* got 8.0"),
        (lambda: saturation(1.0), r"x \[\.\.\., n\] needs at least 1 axes"),
        (lambda: saturation([0.0, INF]), r"got \+inf"),
        (lambda: random_scores(4, 4, None), r"rng must be a numpy\.random\.Generator, got None"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_saturation_refuses_masked_scores():
    with pytest.raises(ValueError, match="scores must be finite"):
        saturation(np.array([[0.0, -np.inf]]))
