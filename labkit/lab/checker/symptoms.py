"""What to say about a wrong answer that fits no known mistake, and how a trial is shown."""

import inspect
import linecache
import re

from . import values
from .contain import OutOfTime, attempt

LONG = 32  # how many numbers a value may hold before it is cut when shown


def name(trial):
    """Return what is wrong in a trial: the first of the symptoms below that it has."""
    return next(text for text in (symptom(trial) for symptom in _SYMPTOMS) if text)


def _refusal_missing(trial):
    refused = isinstance(trial.expected.error, ValueError)
    return f"{trial.case.says} Raise ValueError for it." if refused else None


def _refusal_unasked(trial):
    return "it raises ValueError for an input that is fine." if isinstance(trial.got.error, ValueError) else None


_ENDS = {
    SystemExit: "it ends the program: call neither exit() nor quit().",
    RecursionError: "it calls itself without end.",
    MemoryError: "it needs more memory than there is: does a list grow without end?",
    EOFError: "it waits for something to be typed: use the arguments only.",
}


def misshapen(trial):
    """Return what is wrong with the kind or the shape of a result, or None if nothing is."""
    return _wrong_kind(trial) or _wrong_shape(trial)


def _not_usable(trial):
    """Speak when the answer came to its end, but what it gave back cannot be worked with."""
    if trial.got.error is None or not trial.returned:
        return None
    (returned,) = trial.returned
    return (
        _NOTHING
        if returned is None or returned is ...
        else f"it returns {values.describe(returned)}. {trial.case.says}"
    )


def _stopped(trial):
    error = trial.got.error
    if error is None:
        return None
    if isinstance(error, TypeError) and re.search(r"positional argument|unexpected keyword", str(error)):
        return "it does not take the arguments that it is called with."
    if isinstance(error, TypeError | AttributeError) and re.search(r"\blist\b", str(error)):
        return "it treats a list as an array: here a matrix is a list of rows, and arithmetic goes entry by entry."
    return _ENDS.get(type(error), f"it stops with {type(error).__name__}.")


_NOTHING = "it returns None for this input: is there a path without a return?"


def _wrong_kind(trial):
    expected, got = trial.expected.value, trial.got.value
    if got is None or got is ...:
        return _NOTHING
    if type(expected) in (list, dict) and type(expected) is not type(got):
        return f"it returns {values.describe(got)}, where {values.describe(expected)} is asked for."
    if values.is_number(expected) and not values.is_number(got):
        return f"it returns {values.describe(got)}, where a single number is asked for."
    for path, leaf in values.leaves(got) if isinstance(got, list) else ():
        if not values.is_number(leaf):
            return f"its result holds {values.describe(leaf)} at {path}, where a number is asked for."
    return None


def _wrong_shape(trial):
    expected, got = trial.expected.value, trial.got.value
    if isinstance(expected, list) and values.shape(expected) != values.shape(got):
        return f"its result has {values.describe(got)}, where {values.describe(expected)} is asked for."
    return None


def _not_finite(trial):
    for (path, right), (_, leaf) in _pairs(trial):
        if values.is_number(leaf) and leaf - leaf != 0 and leaf != right:
            return f"its result is {leaf}{' at ' * bool(path)}{path}. {trial.case.says}"
    return None


def _imprecise(trial):
    if values.same(trial.expected.value, trial.got.value, 1e-5):
        return "it is right to a few digits only: is a constant rounded, or the arithmetic in single precision?"
    return None


def _off_by_a_factor(trial):
    ratios = [got / right for (_, right), (_, got) in _pairs(trial) if right]
    if len(ratios) > 1 and ratios[0] and all(values.same(ratio, ratios[0]) for ratio in ratios):
        return f"every entry is {ratios[0]:.4g} times what it should be. {trial.case.says}"
    return None


def _what_the_case_says(trial):
    return trial.case.says


_SYMPTOMS = (
    _refusal_missing,
    _refusal_unasked,
    _not_usable,
    _stopped,
    misshapen,
    _not_finite,
    _imprecise,
    _off_by_a_factor,
    _what_the_case_says,
)


def _pairs(trial):
    if isinstance(trial.expected.value, dict):
        return []
    return list(zip(values.leaves(trial.expected.value), values.leaves(trial.got.value), strict=True))


def details(exercise, answer, trial, title):
    """List pairs of a label and a text: the input of a trial, what was expected, what came, where they differ."""
    arguments = zip(trial.case.labels or exercise.params, values.plain(trial.case.args), strict=False)
    rows = [("", f"{label} = {values.show(value, room=LONG)}") for label, value in arguments]
    digits = 4
    while digits < 16 and _in_words(trial.expected, answer, digits) == _in_words(trial.got, answer, digits):
        digits += 3
    rows[0] = (title, rows[0][1])
    rows.append(("expected", _in_words(trial.expected, answer, digits)))
    rows.append(("got", _in_words(trial.got, answer, digits)))
    expected, got = trial.expected.value, trial.got.value
    if isinstance(got, list) and values.shape(expected) == values.shape(got) and len(values.leaves(got)) > LONG:
        for (path, a), (_, b) in _pairs(trial):
            if not values.same(a, b, trial.case.tolerance):
                rows.append(("first difference", f"at {path}: {values.show(a)} expected, {values.show(b)} came"))
                break
    return rows


def _in_words(outcome, answer, digits):
    error = outcome.error
    if error is None:
        return values.show(outcome.value, digits, LONG)
    if isinstance(error, OutOfTime):
        return "no answer in time"
    file = getattr(getattr(inspect.unwrap(answer), "__code__", None), "co_filename", None)
    if isinstance(error, ValueError) and not any(step.tb_frame.f_code.co_filename == file for step in _steps(error)):
        return "a ValueError"
    return in_words(error, file)


def in_words(error, file):
    """Write an error in one line, with the last line of a file through which it came."""
    text = attempt(lambda: " ".join(str(error).split())).value or ""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)[:120]
    lines = [step.tb_lineno for step in _steps(error) if step.tb_frame.f_code.co_filename == file]
    where = "".join(f", at line {line}: {linecache.getline(file, line).strip()}" for line in lines[-1:])
    return f"{type(error).__name__}{': ' * bool(text)}{text}{where}"


def raised_in(error):
    """Return the name of the function that raised an error."""
    steps = _steps(error)
    return steps[-1].tb_frame.f_code.co_name if steps else None


def _steps(error):
    steps, step = [], error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    return steps
