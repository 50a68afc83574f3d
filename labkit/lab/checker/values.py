"""Values as checks see them: nested lists of numbers, compared with a tolerance and shown in a few digits."""

import math
import numbers
from dataclasses import dataclass


@dataclass(frozen=True)
class Stranger:
    """What a result holds that is no number, list or word: only its kind is kept."""

    kind: str


def plain(value):
    """Return a value as nested lists: arrays and tuples become lists, an array's scalars become numbers.

    Examples
    --------
    >>> plain(((1, 2.5), [3])), plain(zip())
    ([[1, 2.5], [3]], Stranger(kind='zip'))
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or value is ... or isinstance(value, bool | str | Stranger):
        return value
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, int) and abs(value) < 2**53 else float(value)
    return Stranger(type(value).__name__)


def same(a, b, tolerance=1e-9):
    """Return whether two plain values have one shape and equal numbers; NaN equals NaN.

    Examples
    --------
    >>> same([1, [2.0]], [1.0, [2.0 + 1e-12]]), same([1.0], 1.0), same([0.0], [1e-3])
    (True, False, False)
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if is_number(a) and is_number(b):
        both_nan = math.isnan(a) and math.isnan(b)
        return both_nan or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return type(a) is type(b) and a == b


def is_number(value):
    """Return whether a value is one real number (a Boolean is not)."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def leaves(value, path=""):
    """List what a nested value holds, each with the index that leads to it.

    Examples
    --------
    >>> leaves([[1, 2], [3]])
    [('[0][0]', 1), ('[0][1]', 2), ('[1][0]', 3)]
    """
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{path}[{key!r}]")]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, f"{path}[{i}]")]
    return [(path, value)]


def shape(value):
    """Return the lengths of a nested list's axes, or None if they differ from row to row.

    Examples
    --------
    >>> shape([[1, 2, 3], [4, 5, 6]]), shape(7), shape([[1], [2, 3]])
    ((2, 3), (), None)
    """
    if not isinstance(value, list):
        return ()
    inner = {shape(item) for item in value}
    if not value:
        return (0,)
    return None if len(inner) > 1 or None in inner else (len(value), *inner.pop())


def describe(value):
    """Say what kind of thing a value is, in words.

    Examples
    --------
    >>> describe([[1.0, 2.0]]), describe([1.0, [2.0]]), describe(3), describe(plain(zip()))
    ('shape [1, 2]', 'rows of unequal length', 'a single number', 'a zip object')
    """
    if isinstance(value, list):
        axes = shape(value)
        return "rows of unequal length" if axes is None else f"shape {list(axes)}"
    if is_number(value):
        return "a single number"
    return (
        "None" if value is None else f"a {value.kind if isinstance(value, Stranger) else type(value).__name__} object"
    )


def show(value, digits=4, room=32):
    """Write a value in a few digits; a long one is cut and its shape is given.

    Examples
    --------
    >>> show([1 / 3, float("-inf"), 2.0])
    '[0.3333, -inf, 2]'
    >>> show([[float(i) for i in range(20)], [float(i) for i in range(20)]])
    '[[0, 1, 2, 3, …], …] (shape [2, 20])'
    """
    if isinstance(value, list) and len(leaves(value)) > room:
        return f"{_write(value, digits, width=4, rows=1)} ({describe(value)})"
    return _write(value, digits)


def _write(value, digits, width=None, rows=None):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item, digits)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        most = width if rows is None or not any(isinstance(item, list) for item in value) else rows
        shown = [_write(item, digits, width, rows) for item in value[:most]]
        return "[" + ", ".join(shown + ["…"] * (len(shown) < len(value))) + "]"
    if is_number(value):
        return f"{float(value):.{digits}g}" if isinstance(value, float) else str(value)
    return describe(value) if isinstance(value, Stranger) else repr(value)[:60]
