import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.norm import layer_norm, rms_norm

check = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 99)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def naive_layer_norm(row, weight, bias, eps):
    mean = sum(row) / len(row)
    variance = sum((entry - mean) ** 2 for entry in row) / len(row)
    return [(entry - mean) / math.sqrt(variance + eps) * g + b for entry, g, b in zip(row, weight, bias, strict=True)]


def naive_rms_norm(row, weight, eps):
    rms = math.sqrt(sum(entry**2 for entry in row) / len(row) + eps)
    return [entry / rms * g for entry, g in zip(row, weight, strict=True)]


# --- closed forms and loops ---------------------------------------------------------------------------------------


def test_closed_forms():
    # mean 4, deviations −3, −1, 4, variance 26/3; mean square 74/3
    x = np.array([1.0, 3.0, 8.0])
    weight, bias = np.array([1.0, 10.0, -2.0]), np.array([0.5, 0.0, 7.0])
    std, rms = math.sqrt(26 / 3), math.sqrt(74 / 3)
    assert layer_norm(x, weight, eps=0) == pytest.approx([-3 / std, -10 / std, -8 / std], rel=1e-14)
    assert layer_norm(x, weight, bias, eps=0) == pytest.approx([0.5 - 3 / std, -10 / std, 7 - 8 / std], rel=1e-14)
    assert rms_norm(x, weight, eps=0) == pytest.approx([1 / rms, 30 / rms, -16 / rms], rel=1e-14)


@pytest.mark.parametrize("eps", [0, 1e-6, 1e-5, 0.5])
def test_agree_with_a_loop(eps):
    x, weight, bias = 1e-2 * data(4, 7), data(7), data(7, seed=1)
    expected = [naive_layer_norm(row, weight, bias, eps) for row in x]
    np.testing.assert_allclose(layer_norm(x, weight, bias, eps), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(rms_norm(x, weight, eps), [naive_rms_norm(row, weight, eps) for row in x], rtol=1e-13)


def test_epsilon_is_inside_the_root_and_1e_5_by_default():
    x, one = np.array([1e-3, -1e-3]), np.ones(2)
    assert rms_norm(x, one).round(6).tolist() == [0.301511, -0.301511]
    assert rms_norm(x, one) == pytest.approx([1 / math.sqrt(11), -1 / math.sqrt(11)], rel=1e-12)
    assert layer_norm(x, one) == pytest.approx([1 / math.sqrt(11), -1 / math.sqrt(11)], rel=1e-12)
    assert rms_norm(np.array([3e-4, 0.0, 0.0]), np.ones(3), eps=1e-8)[0] == pytest.approx(3 / 2, rel=1e-12)
    # outside the root the first would be 1e-3 / (1e-3 + 1e-5) = 0.990, outside the mean √(1e-6 + 0.5e-5) …
    assert rms_norm(x, one, eps=3e-6) == pytest.approx([0.5, -0.5], rel=1e-12)
    assert layer_norm(x, one, eps=3e-6) == pytest.approx([0.5, -0.5], rel=1e-12)


def test_the_variance_is_biased():
    assert layer_norm(np.array([0.0, 2.0]), np.ones(2), eps=0).tolist() == [-1.0, 1.0]  # √2 smaller if unbiased


# --- what each norm sees ------------------------------------------------------------------------------------------


@check
@given(seeds, st.floats(-100, 100), st.floats(0.01, 100))
def test_layer_norm_sees_neither_shift_nor_scale(seed, shift, scale):
    x, weight = data(3, 6, seed=seed), data(6, seed=seed + 1)
    np.testing.assert_allclose(layer_norm(scale * x + shift, weight, eps=0), layer_norm(x, weight, eps=0), atol=1e-9)


@check
@given(seeds, st.floats(0.01, 100))
def test_rms_norm_does_not_see_scale(seed, scale):
    x, weight = data(3, 6, seed=seed), data(6, seed=seed + 1)
    np.testing.assert_allclose(rms_norm(scale * x, weight, eps=0), rms_norm(x, weight, eps=0), rtol=1e-12)
    np.testing.assert_allclose(rms_norm(-x, weight), -rms_norm(x, weight), rtol=1e-12)


def test_rms_norm_sees_a_shift():
    x, one = data(3, 6), np.ones(6)
    assert np.abs(rms_norm(x + 1, one) - rms_norm(x, one)).min(axis=-1).max() > 0.05


@check
@given(seeds)
def test_what_comes_out_has_the_promised_moments(seed):
    x = 3 + 5 * data(4, 9, seed=seed)
    centred, scaled = layer_norm(x, np.ones(9), eps=0), rms_norm(x, np.ones(9), eps=0)
    np.testing.assert_allclose(centred.mean(axis=-1), 0, atol=1e-13)
    np.testing.assert_allclose(centred.var(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose((scaled**2).mean(axis=-1), 1, rtol=1e-12)


def test_the_two_agree_on_vectors_of_mean_zero_and_only_there():
    x, weight = data(3, 6), data(6)
    centred = x - x.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(rms_norm(centred, weight), layer_norm(x, weight), rtol=1e-10)
    assert np.abs(rms_norm(x, weight) - layer_norm(x, weight)).max() > 0.1


def test_positions_do_not_see_each_other():
    x, weight, bias = data(4, 6), data(6), data(6, seed=1)
    changed = x.copy()
    changed[2] *= -7
    for before, after in (
        (rms_norm(x, weight), rms_norm(changed, weight)),
        (layer_norm(x, weight, bias), layer_norm(changed, weight, bias)),
    ):
        assert np.array_equal(before[[0, 1, 3]], after[[0, 1, 3]])
        assert not np.array_equal(before[2], after[2])


# --- precision ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_squares_do_not_overflow(dtype):
    top = float(np.finfo(dtype).max)
    x = np.array([[top, -top, top / 2, 0.0], [top, top, top, -top]], dtype=dtype)
    weight, bias = np.array([1, 2, 1, 1], dtype=dtype), np.array([0, 1, 0, 0], dtype=dtype)
    wide = x.astype(np.float64)
    for got, exact in (
        (rms_norm(x, weight), rms_norm(wide, weight)),
        (layer_norm(x, weight, bias), layer_norm(wide, weight, bias)),
    ):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, exact, rtol=2 * np.finfo(dtype).eps)
    assert rms_norm(x, weight)[1, 0] == pytest.approx(1)


def test_small_halves_are_not_lost_in_the_squares():
    x = np.array([1e-4, -2e-4, 3e-4], dtype=np.float16)  # their squares are below the smallest float16
    np.testing.assert_allclose(
        rms_norm(x, np.ones(3, np.float16), eps=0), rms_norm(x.astype(float), np.ones(3), eps=0), rtol=2e-3
    )


def test_variance_takes_two_passes():
    # E[x²] − E[x]² loses everything here: the squares differ in their 17th digit
    x = np.array([1e9 + 1, 1e9 + 2, 1e9 + 6])
    np.testing.assert_allclose(layer_norm(x, np.ones(3)), layer_norm(np.array([1.0, 2.0, 6.0]), np.ones(3)), rtol=1e-9)
    offset = np.array([1, 2, 6], dtype=np.float32) + np.float32(1e6)
    np.testing.assert_allclose(
        layer_norm(offset, np.ones(3, np.float32)), layer_norm(offset.astype(float), np.ones(3)), rtol=1e-6
    )


@pytest.mark.parametrize("eps", [0, 1e-5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_without_spread(eps, dtype):
    weight, bias = np.array([2, 3, 4], dtype=dtype), np.array([5, 6, 7], dtype=dtype)
    for value in (0.0, 0.5, -1000.0) + ((0.1, 1000.1) if eps else ()):  # 3 · 0.1 / 3 is not quite 0.1
        x = np.full((2, 3), value, dtype=dtype)
        np.testing.assert_allclose(layer_norm(x, weight, bias, eps), [[5, 6, 7]] * 2, rtol=1e-6)
    assert rms_norm(np.zeros((2, 3), dtype=dtype), weight, eps).tolist() == [[0, 0, 0]] * 2
    assert layer_norm(np.array([[7.0]], dtype=dtype), weight[:1], bias[:1], eps).tolist() == [[5]]


# --- both ---------------------------------------------------------------------------------------------------------

CALLS = {
    "layer_norm": (layer_norm, ((2, 3, 5), (5,))),
    "layer_norm with bias": (layer_norm, ((2, 3, 5), (5,), (5,))),
    "rms_norm": (rms_norm, ((2, 3, 5), (5,))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(name, dtype):
    function, shapes = CALLS[name]
    arrays = [data(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes)]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    out = function(*arrays)
    assert (out.dtype, out.shape) == (dtype, (2, 3, 5))
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    assert not any(np.shares_memory(out, each) for each in arrays)
    tolerance = 4 * np.finfo(dtype).eps
    exact = function(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(out[index], function(arrays[0][index], *arrays[1:]), rtol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_integers_become_float64(name):
    function, shapes = CALLS[name]
    assert function(*(np.arange(math.prod(shape)).reshape(shape) for shape in shapes)).dtype == np.float64


x, w = data(4, 6), data(6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer_norm(x, data(4)), r"weight .* shape \(4,\): axis d_model is 4, but x has d_model = 6"),
        (lambda: layer_norm(x, w, data(1)), r"bias .* shape \(1,\): axis d_model is 1, but x has d_model = 6"),
        (lambda: layer_norm(x, data(1, 6)), r"weight \[d_model\] needs exactly 1 axes, got shape \(1, 6\)"),
        (lambda: layer_norm(x, 1.0), r"weight \[d_model\] needs exactly 1 axes, got shape \(\)"),
        (lambda: layer_norm(2.0, w), r"x \[\.\.\., d_model\] needs at least 1 axes"),
        (lambda: layer_norm(x[:, :0], w[:0]), "axis d_model is empty"),
        (lambda: layer_norm(x.astype(complex), w), "x .* must hold real numbers, got dtype complex128"),
        (lambda: layer_norm(x, w, eps=-1e-5), "eps must be a finite number of at least 0, got -1e-05"),
        (lambda: layer_norm(x, w, eps=np.nan), "eps must be a finite number of at least 0, got nan"),
        (lambda: layer_norm(x, w, eps=np.inf), "eps must be a finite number of at least 0, got inf"),
        (lambda: layer_norm(x, w, eps="1e-5"), "eps must be a finite number of at least 0, got '1e-5'"),
        (lambda: layer_norm(x, w, eps=None), "eps must be a finite number of at least 0, got None"),
        (lambda: layer_norm(x, w, eps=w), "eps must be a finite number of at least 0"),
        (lambda: rms_norm(x, data(5)), "weight .* axis d_model is 5, but x has d_model = 6"),
        (lambda: rms_norm(x, x), r"weight \[d_model\] needs exactly 1 axes, got shape \(4, 6\)"),
        (lambda: rms_norm(2.0, w), r"x \[\.\.\., d_model\] needs at least 1 axes"),
        (lambda: rms_norm(x[:, :0], w[:0]), "axis d_model is empty"),
        (lambda: rms_norm(["a"], [1.0]), "x .* must hold real numbers"),
        (lambda: rms_norm(x, w, eps=-1), "eps must be a finite number of at least 0, got -1"),
        (lambda: rms_norm(x, w, eps=True), "eps must be a finite number of at least 0, got True"),
        (lambda: rms_norm(x, w, eps=np.nan), "eps must be a finite number of at least 0, got nan"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
