"""The checks behind every public function's errors."""

import numpy as np
import pytest

from labkit import _check
from labkit.attention import scaled_dot_product_attention
from labkit.softmax import softmax

A = np.zeros


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (
            {"x": (A((2, 3)), "T d"), "y": (A((4, 3)), "S e"), "z": (A(5), "e")},
            r"z \[e\] has shape \(5,\): axis e is 5, but y has e = 3",
        ),
        ({"x": (A(3), "... T d")}, r"x \[\.\.\., T, d\] needs at least 2 axes, got shape \(3,\)"),
        ({"x": (A((2, 3, 4)), "T d")}, r"x \[T, d\] needs exactly 2 axes, got shape \(2, 3, 4\)"),
        ({"x": (A((3, 5)), "T 4")}, r"axis 4 is 5, expected 4"),
        ({"x": (A((0, 5)), "T d")}, r"axis T is empty"),
        (
            {"x": (A((2, 3, 4)), "... T d"), "y": (A((5, 3, 4)), "... T d")},
            r"leading \(batch\) axes do not broadcast together: x \(2,\), y \(5,\)",
        ),
        ({"x": (np.array(["a"]), "T")}, r"x \[T\] must hold real numbers, got dtype <U1"),
        ({"x": (A(2) + 1j, "T")}, r"must hold real numbers, got dtype complex128"),
        ({"x": (None, "T")}, r"x \[T\] must be an array, got None"),
    ],
)
def test_shapes_says_what_was_expected_and_what_came(specs, message):
    with pytest.raises(ValueError, match=message):
        _check.shapes(**specs)


def test_shapes_returns_sizes_and_lets_batches_broadcast():
    sizes = _check.shapes(x=(A((2, 1, 3, 4)), "... T d"), y=(A((7, 4)), "... S d"), b=(None, "? d"), n=(A(2), "2"))
    assert sizes == {"T": 3, "d": 4, "S": 7}


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (0, {"at_least": 1}, "n must be an integer of at least 1, got 0"),
        (5, {"at_most": 4}, "n must be an integer of at most 4, got 5"),
        (2.0, {}, r"n must be an integer, got 2\.0"),
        (True, {}, "n must be an integer, got True"),
    ],
)
def test_integer(value, bounds, message):
    with pytest.raises(ValueError, match=message):
        _check.integer(**bounds, n=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "1", None, True])
def test_number_refuses(value):
    with pytest.raises(ValueError, match="t must be a finite number of at least 0"):
        _check.number(at_least=0, t=value)


def test_integers_and_numbers_of_numpy_are_welcome():
    _check.integer(at_least=1, n=np.int32(3))
    _check.number(above=0, t=np.float32(0.5))


@pytest.mark.parametrize("array", [[-1, 2], [0, 10]])
def test_ids_out_of_range(array):
    with pytest.raises(ValueError, match=r"targets must lie in 0 … 9 \(vocab_size = 10\), got"):
        _check.ids(10, "vocab_size", targets=np.array(array))


def test_ids_must_be_integers():
    with pytest.raises(ValueError, match="targets must hold integers, got dtype float64"):
        _check.ids(10, "vocab_size", targets=np.array([1.0]))


@pytest.mark.parametrize(
    ("given", "compute", "out"),
    [("float16", "float32", "float16"), ("float32", "float32", "float32"), ("int64", "float64", "float64")],
)
def test_working_precision(given, compute, out):
    x, none, dtype = _check.working(np.ones(2, dtype=given), None)
    assert (x.dtype.name, none, dtype.name) == (compute, None, out)


def test_a_forgotten_argument_is_named():
    with pytest.raises(ValueError, match=r"x \[\.\.\., n\] must be an array, got None"):
        softmax(None)
    with pytest.raises(ValueError, match=r"k \[\.\.\., S, d_k\] must be an array, got None"):
        scaled_dot_product_attention(A((2, 3)), None, A((2, 3)))
