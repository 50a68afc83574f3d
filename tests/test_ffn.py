import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from labkit.ffn import gelu, gelu_mlp, silu, swiglu

INF, NAN = np.inf, np.nan
check = settings(max_examples=40, deadline=None, derandomize=True)
numbers = arrays(np.float64, array_shapes(min_dims=0, max_dims=3, max_side=5), elements=st.floats(-60, 60))
GRID = np.linspace(-12, 12, 481)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def naive_tanh_gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def naive_exact_gelu(x):
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def naive_silu(x):
    return x / (1 + math.exp(-x))


ACTIVATIONS = {
    "tanh": (lambda x: gelu(x, "tanh"), naive_tanh_gelu),
    "erf": (lambda x: gelu(x, "none"), naive_exact_gelu),
    "silu": (silu, naive_silu),
}
every_activation = pytest.mark.parametrize("name", ACTIVATIONS)


# --- activations --------------------------------------------------------------------------------------------------


@every_activation
def test_activations_agree_with_a_loop(name):
    function, naive = ACTIVATIONS[name]
    np.testing.assert_allclose(function(GRID), [naive(x) for x in GRID], rtol=1e-14, atol=1e-15)


def test_known_values():
    assert gelu(np.array([-2.7]), "none")[0] == pytest.approx(-0.00936083, abs=5e-9)
    assert gelu(np.array([-2.7]), "tanh")[0] == pytest.approx(-0.00888759, abs=5e-9)
    # Φ(1) = 0.841344746068543, from tables; σ(ln 3) = 3/4
    assert gelu(np.array([1.0, -1.0]), "none") == pytest.approx([0.841344746068543, -0.158655253931457], rel=1e-14)
    assert silu(np.array([math.log(3), -math.log(3)])) == pytest.approx([0.75 * math.log(3), -0.25 * math.log(3)])
    for function, _ in ACTIVATIONS.values():
        assert function(np.zeros(2)).tolist() == [0, 0]


def test_the_two_gelus_differ_and_tanh_is_the_default():
    gap = np.abs(gelu(GRID, "tanh") - gelu(GRID, "none"))
    assert 4e-4 < gap.max() < 5e-4
    assert np.array_equal(gelu(GRID), gelu(GRID, "tanh"))
    assert np.array_equal(gelu(GRID), gelu(GRID, approximate="tanh"))


@every_activation
@check
@given(x=numbers)
def test_the_gates_of_x_and_minus_x_add_up_to_one(name, x):
    function, _ = ACTIVATIONS[name]
    np.testing.assert_allclose(function(x) - function(-x), x, rtol=1e-12, atol=1e-14)
    assert function(x).shape == x.shape


@every_activation
def test_activations_dip_once_below_zero(name):
    y = ACTIVATIONS[name][0](GRID)
    lowest = y.argmin()
    assert -1.3 < GRID[lowest] < -0.7
    assert -0.28 < y[lowest] < -0.16
    assert np.all(np.diff(y[:lowest]) <= 0)
    assert np.all(np.diff(y[lowest:]) > 0)
    assert np.all(y <= np.maximum(GRID, 0))


@every_activation
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_extremes_neither_overflow_nor_warn(name, dtype):
    top = np.finfo(dtype).max
    out = ACTIVATIONS[name][0](np.array([top, -top, top / 2, INF, -INF, NAN, 0.0], dtype=dtype))
    assert out.dtype == dtype
    assert out[:5].tolist() == [top, 0, top / 2, INF, 0]
    assert np.isnan(out[5])
    assert out[6] == 0


@every_activation
def test_tails_keep_their_sign_and_size(name):
    function, naive = ACTIVATIONS[name]
    x = np.array([-4.0, -5.0, -6.0, -7.0])
    np.testing.assert_allclose(function(x), [naive(each) for each in x], rtol=1e-4)
    assert np.all(function(x) < 0)
    if name != "tanh":
        x = np.array([-20.0, -30.0, -38.0])
        np.testing.assert_allclose(function(x), [naive(each) for each in x], rtol=1e-12, atol=0)


# --- networks -----------------------------------------------------------------------------------------------------


def test_gelu_mlp_agrees_with_a_loop():
    x, w_up, w_down, b_up, b_down = data(3, 4), data(4, 7), data(7, 4), data(7), data(4)
    for approximate, naive in (("tanh", naive_tanh_gelu), ("none", naive_exact_gelu)):
        for b1, b2 in ((b_up, b_down), (None, None), (b_up, None), (None, b_down)):
            shift, offset = (np.zeros(7) if b1 is None else b1), (np.zeros(4) if b2 is None else b2)
            hidden = [[naive(row @ w_up[:, j] + shift[j]) for j in range(7)] for row in x]
            out = gelu_mlp(x, w_up, w_down, b1, b2, approximate=approximate)
            np.testing.assert_allclose(out, np.array(hidden) @ w_down + offset, rtol=1e-12, atol=1e-14)
    assert np.array_equal(gelu_mlp(x, w_up, w_down), gelu_mlp(x, w_up, w_down, approximate="tanh"))


def test_swiglu_agrees_with_a_loop():
    x, w_gate, w_up, w_down = data(3, 4), data(4, 7), data(4, 7, seed=1), data(7, 4)
    hidden = [[naive_silu(row @ w_gate[:, j]) * (row @ w_up[:, j]) for j in range(7)] for row in x]
    np.testing.assert_allclose(swiglu(x, w_gate, w_up, w_down), np.array(hidden) @ w_down, rtol=1e-12, atol=1e-14)


def test_swiglu_closed_form():
    # gate ln 3 → 0.75 ln 3, times up 2, times down 4 and −1
    out = swiglu(np.array([1.0]), np.array([[math.log(3)]]), np.array([[2.0]]), np.array([[4.0]]))
    assert out == pytest.approx([6 * math.log(3)], rel=1e-14)


def test_a_closed_gate_lets_nothing_pass():
    x, w_up, w_down = np.abs(data(3, 4)), data(4, 7), data(7, 4)
    assert not swiglu(x, np.full((4, 7), -1e5), w_up, w_down).any()
    opened = swiglu(x, np.full((4, 7), 1e5), w_up, w_down)
    np.testing.assert_allclose(opened, (x @ np.full((4, 7), 1e5) * (x @ w_up)) @ w_down, rtol=1e-12)


def test_positions_do_not_see_each_other():
    x = data(4, 5)
    changed = x.copy()
    changed[2] += 1
    for function in (
        lambda x: gelu_mlp(x, data(5, 8), data(8, 5)),
        lambda x: swiglu(x, data(5, 8), data(5, 8, seed=1), data(8, 5)),
    ):
        before, after = function(x), function(changed)
        assert np.array_equal(before[[0, 1, 3]], after[[0, 1, 3]])
        assert not np.array_equal(before[2], after[2])


def test_halves_do_not_overflow_on_the_way():
    x, w = np.full((2, 64), 50, dtype=np.float16), np.full((64, 8), 50, dtype=np.float16)  # hidden 160000 > 65504
    w_down = np.full((8, 64), 2**-10, dtype=np.float16)
    assert gelu_mlp(x, w, w_down).tolist() == [[1250.0] * 64] * 2
    small = np.full((8, 64), 2**-24, dtype=np.float16)
    assert swiglu(x, w, w, small)[0, 0] == np.float16(160000.0**2 * 8 * 2**-24)


# --- all ----------------------------------------------------------------------------------------------------------

CALLS = {
    "gelu tanh": (lambda x: gelu(x, "tanh"), ((2, 3, 5),)),
    "gelu erf": (lambda x: gelu(x, "none"), ((2, 3, 5),)),
    "silu": (silu, ((2, 3, 5),)),
    "gelu_mlp": (gelu_mlp, ((2, 3, 5), (5, 7), (7, 5), (7,), (5,))),
    "swiglu": (swiglu, ((2, 3, 5), (5, 7), (5, 7), (7, 5))),
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
    tolerance = 8 * np.finfo(dtype).eps
    exact = function(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(out[index], function(arrays[0][index], *arrays[1:]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_integers_become_float64(name):
    function, shapes = CALLS[name]
    assert function(*(np.arange(math.prod(shape)).reshape(shape) % 5 for shape in shapes)).dtype == np.float64


def test_activations_take_single_numbers_and_empty_batches():
    for function, naive in ACTIVATIONS.values():
        assert function(-0.5) == pytest.approx(naive(-0.5), rel=1e-14)
        assert function(np.zeros((0, 3))).shape == (0, 3)


x, up, down = data(3, 4), data(4, 7), data(7, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gelu(x, "erf"), 'approximate must be "tanh" or "none", got \'erf\''),
        (lambda: gelu(x, None), 'approximate must be "tanh" or "none", got None'),
        (lambda: gelu(x, True), 'approximate must be "tanh" or "none", got True'),
        (lambda: gelu(x + 1j), "x .* must hold real numbers, got dtype complex128"),
        (lambda: gelu(["a"]), "x .* must hold real numbers"),
        (lambda: silu(["a"]), "x .* must hold real numbers, got dtype <U1"),
        (lambda: silu(x + 1j), "x .* must hold real numbers, got dtype complex128"),
        (lambda: gelu_mlp(x, up.T, down), "w_up .* axis d_model is 7, but x has d_model = 4"),
        (lambda: gelu_mlp(x, up, down.T), "w_down .* axis d_ff is 4, but w_up has d_ff = 7"),
        (lambda: gelu_mlp(x, up, data(7, 3)), "w_down .* axis d_model is 3, but x has d_model = 4"),
        (lambda: gelu_mlp(x, up, down, b_up=data(4)), "b_up .* axis d_ff is 4, but w_up has d_ff = 7"),
        (lambda: gelu_mlp(x, up, down, b_down=data(7)), "b_down .* axis d_model is 7, but x has d_model = 4"),
        (lambda: gelu_mlp(x, up, down, b_up=data(1, 7)), "b_up .* needs exactly 1 axes"),
        (lambda: gelu_mlp(x, up, down, approximate="sigmoid"), "approximate must be"),
        (lambda: gelu_mlp(2.0, up, down), r"x \[\.\.\., d_model\] needs at least 1 axes"),
        (lambda: gelu_mlp(x[:, :0], up[:0], down[:, :0]), "axis d_model is empty"),
        (lambda: swiglu(x, up.T, up, down), "w_gate .* axis d_model is 7, but x has d_model = 4"),
        (lambda: swiglu(x, up, up.T, down), "w_up .* axis d_model is 7, but x has d_model = 4"),
        (lambda: swiglu(x, up, data(4, 6), down), "w_up .* axis d_ff is 6, but w_gate has d_ff = 7"),
        (lambda: swiglu(x, up, up, down.T), "w_down .* axis d_ff is 4, but w_gate has d_ff = 7"),
        (lambda: swiglu(x, up, up, data(2, 7, 4)), "w_down .* needs exactly 2 axes"),
        (lambda: swiglu(x, up[:, :0], up[:, :0], down[:0]), "axis d_ff is empty"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
