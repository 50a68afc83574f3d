"""Judge an answer to an exercise, and say what is wrong with a wrong one.

An answer is right when it does what the oracle does in every case. When it does not, and does what one of the mistakes
does, that mistake is named; else a symptom is.
"""

import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from . import symptoms, values
from .contain import Outcome, OutOfTime, attempt, contain
from .exercise import Case, Exercise, Quantity, Sign
from .oracle import INF
from .result import FAILED, NOT_STARTED, PASSED, WAITING, Result

SECONDS = 5.0


@dataclass(frozen=True)
class Trial:
    """One case tried: what should have come, what came, and what the answer did on the way.

    `returned` is what its last call gave back (if that call came to an end at all), `blank` says that every call gave
    back nothing, as an untouched stub does, and `changed` names an argument that it changed.
    """

    case: Case
    expected: Outcome
    got: Outcome
    returned: list
    blank: bool
    changed: str

    @property
    def right(self):
        """Whether what came is what should have come."""
        return not self.changed and _agree(self.expected, self.got, self.case.tolerance)


def judge(exercise, answer, seconds=SECONDS, strict=False):
    """Return the Result of an answer: a function for an Exercise, a value for a Quantity.

    With `strict` a function is given lists, and masks to be added. Without, one that wants arrays (if NumPy is loaded)
    or Boolean masks is right, too.
    """
    if isinstance(exercise, Quantity):
        return _judge_value(exercise, answer)
    total = len(exercise.cases)
    if answer is None or answer is ...:
        return Result(exercise.name, NOT_STARTED, exercise.chapter, total=total)
    if not callable(answer):
        kind = _a(contain(lambda: values.plain(answer), seconds).value)
        message = f"the answer should be a function of ({', '.join(exercise.params)}), not {kind}."
        return Result(exercise.name, FAILED, exercise.chapter, message, total=total)
    reports = []
    for style in _styles(exercise, strict):
        trials = _attempt(exercise, answer, style, seconds)
        result = _verdict(exercise, answer, trials)
        if result.status != FAILED or isinstance(trials[-1].got.error, OutOfTime):
            return result
        if not style.boolean:
            crashed = any(_refuses_lists(trial.got) for trial in trials if not trial.right)
            reports.append((crashed, len(reports), result))
    return min(reports)[-1]  # what is said about lists, unless it was arrays that were wanted


def _refuses_lists(outcome):
    return isinstance(outcome.error, AttributeError | TypeError)


def _judge_value(quantity, answer):
    name, chapter, right = quantity.name, quantity.chapter, quantity.value
    if answer is None or answer is ...:
        return Result(name, NOT_STARTED, chapter, total=1)
    answer = contain(lambda: values.plain(answer), SECONDS).value
    if values.same(answer, right, quantity.tolerance):
        return Result(name, PASSED, chapter, quantity.because, right=1, total=1)
    numbers = all(values.is_number(leaf) for _, leaf in values.leaves(answer))
    if values.shape(answer) != values.shape(right) or not numbers:
        others = " of other things" if isinstance(answer, list) and not numbers else ""
        message = f"the answer should be {_a(right)}, not {_a(answer)}{others}."
    else:
        slips = (says for slip, says in quantity.slips if values.same(answer, slip, quantity.tolerance))
        message = next(slips, f"{values.show(answer)} is not right yet. {quantity.asks}")
    return Result(name, FAILED, chapter, message, total=1)


def _a(value):
    return f"a list of {values.describe(value)}" if isinstance(value, list) else values.describe(value)


# How arguments are handed over: as lists, or as arrays if NumPy is loaded; and masks to be added, or as Booleans.


@dataclass(frozen=True)
class _Style:
    numpy: object
    boolean: bool


def _styles(exercise, strict):
    takes_masks = exercise.mask or "mask" in exercise.params
    modules = (None, sys.modules["numpy"]) if "numpy" in sys.modules and not strict else (None,)
    masks = (False, True) if takes_masks and not strict else (False,)
    return [_Style(numpy, boolean) for numpy in modules for boolean in masks]


def _hand_over(args, params, style):
    """Return a copy of the arguments in a style. Ragged rows stay lists: no array can hold them."""
    args = list(copy.deepcopy(args))
    for i, name in enumerate(params[: len(args)]):
        if style.boolean and name == "mask" and args[i] is not None:
            args[i] = [[entry == 0 for entry in row] for row in args[i]]
        if style.numpy is not None:
            args[i] = _as_arrays(args[i], style.numpy)
    return args


def _as_arrays(value, numpy):
    if hasattr(value, "in_arrays"):
        return value.in_arrays(numpy)
    if isinstance(value, dict):
        return {key: _as_arrays(item, numpy) for key, item in value.items()}
    if not isinstance(value, list) or not value:
        return value
    if any(isinstance(item, dict) for item in value):
        return [_as_arrays(item, numpy) for item in value]
    return value if values.shape(value) is None else numpy.array(value)


def _attempt(exercise, answer, style, seconds):
    """Try every case in one style, until one does not come back in time."""
    deadline = time.monotonic() + seconds
    trials = []
    for case in exercise.cases:
        probe = _Probe(answer, exercise, style)
        expected = _known(case, exercise.oracle)
        got = contain(partial(_drive, case, probe), max(0.1, deadline - time.monotonic()))
        if style.numpy is None or not _refuses_lists(got) or not _ragged(case):
            blank = probe.calls > 0 and probe.calls == probe.blanks
            trials.append(Trial(case, expected, got, probe.returned, blank, probe.changed))
        if isinstance(got.error, OutOfTime):
            break
    return trials


def _ragged(case):
    return any(values.shape(arg) is None for arg in case.args)


def _drive(case, fn):
    return values.plain(case.drive(fn, *copy.deepcopy(case.args)))


_KNOWN = {}


def _known(case, fn):
    """Return what the oracle or a mistake comes to in a case; each is computed once."""
    if (case.name, fn) not in _KNOWN:
        _KNOWN[case.name, fn] = attempt(partial(_drive, case, fn))
    return _KNOWN[case.name, fn]


@dataclass
class _Probe:
    """An answer as a case's drive calls it: arguments in one style, result plain, changed arguments noticed."""

    answer: Callable
    exercise: Exercise
    style: _Style
    changed: str = ""
    returned: list = field(default_factory=list)
    calls: int = 0
    blanks: int = 0

    def __call__(self, *args):
        given = _hand_over(args, self.exercise.params, self.style)
        before = copy.deepcopy([values.plain(arg) for arg in given])
        self.calls, self.returned = self.calls + 1, []
        value = values.plain(self.answer(*given))
        self.returned = [value]
        self.blanks += value is None or value is ...
        for name, old, new in zip(self.exercise.params, before, given, strict=False):
            if not callable(new) and not values.same(old, values.plain(new), 0):
                self.changed = self.changed or name
        if self.style.boolean and self.exercise.mask:
            value = [[{True: 0.0, False: -INF}[entry] for entry in row] for row in value]
        return value


def _agree(a, b, tolerance):
    if a.error is None and b.error is None:
        return values.same(a.value, b.value, tolerance)
    if isinstance(a.error, ValueError) and isinstance(b.error, ValueError):
        return True
    return a.error is not None and type(a.error) is type(b.error)


# The verdict.


def _empty(answer):
    """Tell whether a function that returns None does nothing else: its body is a docstring, `...` or pass."""
    code = getattr(answer, "__code__", None)
    return code is not None and len(code.co_code) == len((lambda: None).__code__.co_code)


def _verdict(exercise, answer, trials):
    """Return the Result that a list of trials comes to."""
    name, chapter, total = exercise.name, exercise.chapter, len(trials)
    wrong = [trial for trial in trials if not trial.right]
    printed = next((trial.got.printed for trial in trials if trial.got.printed), "")
    if not wrong:
        return Result(name, PASSED, chapter, right=total, total=total, printed=printed)
    missing = next((trial.got.error for trial in wrong if isinstance(trial.got.error, NotImplementedError)), None)
    if missing is not None:
        waits_for = symptoms.raised_in(missing)
        if waits_for in (None, getattr(answer, "__name__", None)):
            return Result(name, NOT_STARTED, chapter, total=total)
        return Result(name, WAITING, chapter, f"waits for {waits_for}, which is not started.", total=total)
    if all(trial.blank for trial in trials):
        forgets = trials[0].returned == [None] and not _empty(answer)
        hint = "(It returns None. A function hands its result back with return.)" if forgets else ""
        return Result(name, NOT_STARTED, chapter, hint, total=total)
    message, shown = _diagnose(exercise, trials, wrong)
    details = tuple(symptoms.details(exercise, answer, shown, "smallest such input"))
    each = {trial.case.name: tuple(symptoms.details(exercise, answer, trial, "input")) for trial in wrong}
    if isinstance(trials[-1].got.error, OutOfTime):
        each |= {case.name: (("not tried", ""),) for case in exercise.cases[len(trials) :]}
        total = len(exercise.cases)
    return Result(name, FAILED, chapter, message, len(trials) - len(wrong), total, details, each, printed)


def _diagnose(exercise, trials, wrong):
    """Return what is wrong, and the trial with the smallest input that shows it."""
    for trial in wrong:
        if isinstance(trial.got.error, OutOfTime):
            return "it does not come back. Is there a loop that never ends?", trial
    for trial in wrong:
        if trial.changed:
            return f"it changes its argument {trial.changed}. Build a new list: the caller needs the old one.", trial
    found = []
    for order, mistake in enumerate(exercise.mistakes):
        explained = _explained(mistake, trials)
        shown = [trial for trial in explained if not trial.right]
        if shown and 2 * len(explained) >= len(trials):  # a mistake must fit what is right about the answer, too
            found.append((len(explained), -order, mistake.message, _smallest(shown)))
    if found:
        return max(found, key=lambda entry: entry[:2])[2:]
    trial = _smallest(wrong)
    return symptoms.name(trial), trial


def _explained(mistake, trials):
    """Return the trials in which an answer with this mistake would have done what this one did."""
    if isinstance(mistake, Sign):  # a sign does not speak about the trials that are right
        return [trial for trial in trials if trial.right or _bears(mistake, trial)]
    fits = []
    for wrong in mistake.wrongs:
        outcomes = [_known(trial.case, wrong) for trial in trials]
        fits.append([t for t, o in zip(trials, outcomes, strict=True) if _agree(o, t.got, t.case.tolerance)])
    return max(fits, key=len)


def _bears(sign, trial):
    if trial.got.error is not None or trial.expected.error is not None or symptoms.misshapen(trial):
        return False
    return attempt(lambda: sign.shows(trial.case.args, trial.expected.value, trial.got.value)).value is True


def _smallest(trials):
    return min(trials, key=lambda trial: len(values.leaves(values.plain(trial.case.args))))
