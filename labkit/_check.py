"""The checks that every public function makes on what it is given, one line each.

Errors are part of the interface: each says which argument, which axis, what was expected and what came.
"""

import numbers
from functools import lru_cache

import numpy as np


def shapes(**specs):
    """Check that arrays have the axes they should, and that axes of one name have one size.

    Each keyword is an argument's name, each value a pair of the array and its axes, written as one string:
    `shapes(q=(q, "... T d_head"), k=(k, "... S d_head"))`. The dots stand for any leading (batch) axes, and those of
    all arguments must broadcast together. An axis written as a number must have that size. A "?" in front
    marks an optional argument, which may be None.

    Returns
    -------
    dict
        The size of each named axis.

    Raises
    ------
    ValueError
        For an array that is not numeric, has too few axes, has an empty axis, or disagrees with another.

    Examples
    --------
    >>> shapes(q=(np.zeros((2, 4, 8)), "... T d_head"), k=(np.zeros((6, 8)), "... S d_head"))
    {'T': 4, 'd_head': 8, 'S': 6}
    >>> shapes(q=(np.zeros((4, 8)), "... T d_head"), k=(np.zeros((6, 5)), "... S d_head"))
    Traceback (most recent call last):
    ValueError: k [..., S, d_head] has shape (6, 5): axis d_head is 5, but q has d_head = 8
    """
    known = [
        (spec, array.shape, array.dtype) if type(array) is np.ndarray else _described(spec, array)
        for array, spec in specs.values()
    ]
    return dict(_sizes(tuple(specs), tuple(known)))


def _described(spec, array):
    array = None if array is None else np.asarray(array)
    return (spec, None) if array is None else (spec, array.shape, array.dtype)


@lru_cache(maxsize=4096)  # the same few shapes come again and again
def _sizes(names, known):
    """Return the size of each named axis, from each array's axes as a string, its shape and its dtype."""
    sizes, owner, leading = {}, {}, {}
    for name, (spec, shape, *dtypes) in zip(names, known, strict=True):
        optional, axes = spec.startswith("?"), spec.removeprefix("?").split()
        title = f"{name} [{', '.join(axes)}]"
        if shape is None and optional:
            continue
        if shape is None:
            raise ValueError(f"{title} must be an array, got None")
        (dtype,) = dtypes
        if dtype.kind not in "fiub" and dtype.name != "bfloat16":  # NumPy calls bfloat16's kind "V"
            raise ValueError(f"{title} must hold real numbers, got dtype {dtype}")
        batched = axes[0] == "..."
        axes = axes[batched:]
        split = len(shape) - len(axes)
        if split < 0 or (split and not batched):
            least = "at least" if batched else "exactly"
            raise ValueError(f"{title} needs {least} {len(axes)} axes, got shape {shape}")
        leading[name] = shape[:split]
        for axis, size in zip(axes, shape[split:], strict=True):
            wanted = int(axis) if axis.isdigit() else sizes.setdefault(axis, size)
            first = owner.setdefault(axis, name)
            if size != wanted:
                rule = f"expected {axis}" if axis.isdigit() else f"but {first} has {axis} = {wanted}"
                raise ValueError(f"{title} has shape {shape}: axis {axis} is {size}, {rule}")
            if size == 0:
                raise ValueError(f"{title} has shape {shape}: axis {axis} is empty")
    try:
        np.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items())
        raise ValueError(f"leading (batch) axes do not broadcast together: {listed}") from None
    return sizes


def integer(at_least=None, at_most=None, **values):
    """Check that each keyword's value is an integer (a Boolean is not one) within the bounds given.

    Examples
    --------
    >>> integer(at_least=1, n_heads=8)
    >>> integer(at_least=1, n_heads=0)
    Traceback (most recent call last):
    ValueError: n_heads must be an integer of at least 1, got 0
    """
    bounds = [f"at least {at_least}"] if at_least is not None else []
    bounds += [f"at most {at_most}"] if at_most is not None else []
    wanted = "an integer" + (" of " + " and ".join(bounds) if bounds else "")
    for name, value in values.items():
        whole = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
        too_low = whole and at_least is not None and value < at_least
        if not whole or too_low or (at_most is not None and value > at_most):
            raise ValueError(f"{name} must be {wanted}, got {value!r}")


def number(above=None, at_least=None, **values):
    """Check that each keyword's value is one finite real number within the bounds given.

    Examples
    --------
    >>> number(above=0, temperature=0.7)
    >>> number(above=0, temperature=float("nan"))
    Traceback (most recent call last):
    ValueError: temperature must be a finite number above 0, got nan
    """
    wanted = "a finite number"
    wanted += f" above {above}" if above is not None else ""
    wanted += f" of at least {at_least}" if at_least is not None else ""
    for name, value in values.items():
        real = isinstance(value, numbers.Real) and not isinstance(value, bool) and np.isfinite(value)
        too_low = real and ((above is not None and value <= above) or (at_least is not None and value < at_least))
        if not real or too_low:
            raise ValueError(f"{name} must be {wanted}, got {value!r}")


def choice(allowed, **values):
    """Check that each keyword's value is one of those allowed.

    Examples
    --------
    >>> choice(("rms", "layer"), norm="rms")
    >>> choice(("rms", "layer"), norm="batch")
    Traceback (most recent call last):
    ValueError: norm must be one of 'rms', 'layer', got 'batch'
    """
    for name, value in values.items():
        if not any(value is option or (type(value) is type(option) and value == option) for option in allowed):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def ids(size, size_name, **arrays):
    """Check that arrays hold whole numbers in [0, size): token ids, targets, positions.

    Examples
    --------
    >>> ids(10, "vocab_size", token_ids=np.array([1, 5, 9, 2]))
    >>> ids(10, "vocab_size", token_ids=np.array([1, 50]))
    Traceback (most recent call last):
    ValueError: token_ids must lie in 0 … 9 (vocab_size = 10), got 50
    """
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} must hold integers, got dtype {array.dtype}")
        wrong = array[(array < 0) | (array >= size)]
        if wrong.size:
            raise ValueError(f"{name} must lie in 0 … {size - 1} ({size_name} = {size}), got {wrong.flat[0]}")


def masks(*arrays):
    """Check that arrays can serve as masks together: each Boolean or float, and of shapes that broadcast together.

    Examples
    --------
    >>> masks(np.array([[True, False]]), np.array([0.0, -np.inf]))
    >>> masks(np.array([1, 0]))
    Traceback (most recent call last):
    ValueError: mask must be Boolean (True = may attend) or float (added), got dtype int64
    """
    for array in arrays:
        if array.dtype.kind not in "bf" and array.dtype.name != "bfloat16":
            raise ValueError(f"mask must be Boolean (True = may attend) or float (added), got dtype {array.dtype}")
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        listed = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"masks do not broadcast together: {listed}") from None


def generator(**values):
    """Check that each keyword's value is a NumPy random generator: no function draws from a hidden global one.

    Examples
    --------
    >>> generator(rng=np.random.default_rng(0))
    >>> generator(rng=0)
    Traceback (most recent call last):
    ValueError: rng must be a numpy.random.Generator, got 0
    """
    for name, value in values.items():
        if not isinstance(value, np.random.Generator):
            raise ValueError(f"{name} must be a numpy.random.Generator, got {value!r}")


def working(*arrays):
    """Return the arrays in the precision to compute in, and the dtype that the result should have.

    The dtype that came in goes out. Float16 and bfloat16 are computed in float32, integers in float64. None stays None.

    Examples
    --------
    >>> x, dtype = working(np.ones(3, dtype=np.float16))
    >>> x.dtype.name, dtype.name
    ('float32', 'float16')
    """
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    kinds = {a.dtype for a in arrays if a is not None}
    if len(kinds) == 1 and not kinds.isdisjoint(_PLAIN):  # the common case: nothing to convert
        return *arrays, kinds.pop()
    dtype = np.result_type(*(np.float64 if kind.kind in "iub" else kind for kind in kinds))
    compute = np.float32 if dtype.itemsize == 2 else dtype
    return *(None if a is None else a.astype(compute, copy=False) for a in arrays), dtype


_PLAIN = {np.dtype(np.float32), np.dtype(np.float64)}
