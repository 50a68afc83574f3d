"""Checks for the exercises of the lab and of the chapters, in the standard library alone.

`check(name, answer)` prints a verdict, `run_check(name, answer)` returns it.
"""

import difflib

from . import course, values
from .contain import attempt
from .exercises import EVERYTHING, LAB
from .judge import SECONDS, judge
from .result import FAILED, UNKNOWN, Result

__all__ = ["EVERYTHING", "LAB", "check", "course", "find", "run_check"]


def find(name):
    """Return the exercise of a name (with or without its leading underscore), or None."""
    return EVERYTHING.get(name.lstrip("_")) if isinstance(name, str) else None


def run_check(name, answer, seconds=SECONDS, strict=False):
    """Return the Result of an answer to an exercise. It never raises, whatever the answer does.

    Parameters
    ----------
    name : str
        Name of the exercise.
    answer : object
        The function written, or the value computed by hand. None and `...` mean "not started".
    seconds : float
        How long the answer may take over all cases together.
    strict : bool
        Whether a function must take lists, and masks to be added. Without it, one that takes NumPy arrays (if NumPy is
        loaded) or Boolean masks (True = may attend) is right, too.

    Returns
    -------
    Result

    Examples
    --------
    >>> run_check("std_of_scores", 8).passed
    True
    >>> print(run_check("softmax", lambda x: [1 / len(x)] * len(x)))  # doctest: +ELLIPSIS
    ✗ softmax: exp turns differences of scores into ratios of weights.
    ...
    """
    exercise = find(name)
    if exercise is None:
        title = name if isinstance(name, str) else values.describe(values.plain(name))
        near = difflib.get_close_matches(title, EVERYTHING, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return Result(title, UNKNOWN, message=f"there is no exercise of this name.{hint}")
    outcome = attempt(lambda: judge(exercise, answer, seconds, strict))
    if outcome.error is not None:  # an object that answers no question, not even that for its name
        message = f"it cannot be judged: {type(outcome.error).__name__}."
        return Result(exercise.name, FAILED, exercise.chapter, message)
    return outcome.value


def check(name, answer=None):
    """Judge an answer to an exercise and print the verdict.

    Parameters
    ----------
    name : str
        Name of the exercise, such as "softmax".
    answer : object
        The function that you wrote, on lists or on NumPy arrays, or the value that you computed by hand.

    Examples
    --------
    >>> check("std_of_scores", 64)
    ✗ std_of_scores: 64 is the variance: the standard deviation is its square root.
        See chapter 3.
    >>> check("softmax", ...)
    ○ softmax: not started.
    """
    print(run_check(name, answer))
