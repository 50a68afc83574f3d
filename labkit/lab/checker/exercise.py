"""What an exercise is made of. All of it is data; `judge` is what uses it."""

from collections.abc import Callable
from dataclasses import dataclass


def call(fn, *args):
    """Call a function once: what a case does unless it says otherwise."""
    return fn(*args)


@dataclass(frozen=True)
class Case:
    """One input, on which an answer must do what the oracle does.

    `drive(fn, *args)` makes the calls (one, unless said otherwise) and returns what is compared. `says` is what the
    case is about: it is the diagnosis when no known mistake fits. Where the oracle raises ValueError, the answer must.
    `labels` name the arguments where they are not the function's own.
    """

    name: str
    args: tuple
    says: str
    drive: Callable = call
    tolerance: float = 1e-9
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, init=False)
class Mistake:
    """A likely mistake: what to say, and the function with that mistake in it (several, if it has several forms)."""

    message: str
    wrongs: tuple[Callable, ...]

    def __init__(self, message, *wrongs):
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "wrongs", wrongs)


@dataclass(frozen=True)
class Sign:
    """A likely mistake known by a sign that it leaves: `shows(args, expected, got)` looks at a wrong value."""

    message: str
    shows: Callable


@dataclass(frozen=True)
class Exercise:
    """A function to write.

    `needs` are the functions of the lab that it builds on, `hints` go from a nudge to almost the code, `mask` says that
    its result is a mask, and `extension` that it comes after the main part.
    """

    name: str
    chapter: int
    params: tuple[str, ...]
    oracle: Callable
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake | Sign, ...]
    hints: tuple[str, ...]
    needs: tuple[str, ...] = ()
    mask: bool = False
    extension: bool = False


@dataclass(frozen=True)
class Quantity:
    """Something to compute by hand: a number, or a list of them, right to within a relative `tolerance`.

    `asks` is the question, `because` the reason for the value, `slips` the values that common slips lead to, each with
    what to say about it.
    """

    name: str
    chapter: int
    asks: str
    value: object
    because: str
    slips: tuple[tuple[object, str], ...]
    tolerance: float = 5e-3
