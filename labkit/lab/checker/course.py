"""The lab as a course: a reader's file, judged function by function, in an order in which each builds on the last."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

from . import symptoms
from .contain import OutOfTime, contain
from .exercises import LAB
from .judge import SECONDS, judge
from .result import FAILED, NOT_STARTED, WAITING

BY_NAME = {exercise.name: exercise for exercise in LAB}


def load(path, seconds=SECONDS):
    """Return the module in a file and "", or None and what is wrong with the file.

    The file is run as any import would run it, except that it can neither hang nor print.
    """
    path = Path(path).resolve()
    if not path.is_file():
        return None, f"there is no {path.name} here."
    outcome = contain(lambda: _import(path), seconds)
    if outcome.error is None:
        return outcome.value, ""
    if isinstance(outcome.error, OutOfTime):
        return None, f"{path.name} does not come to its end: is there a loop outside the functions?"
    if isinstance(outcome.error, SyntaxError):
        line = (outcome.error.text or "").strip()
        place = f", at line {outcome.error.lineno}: {line}" if line else ""
        return None, f"{path.name} is not Python yet: {outcome.error.msg}{place}"
    return None, f"{path.name} stops while it is read: {symptoms.in_words(outcome.error, str(path))}"


def _import(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a file saved twice within a second must not be taken for the one before
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def verdict(module, exercise, known, seconds=SECONDS, announce=lambda name: None):
    """Return the Result of a module's function, and keep it in `known`, a dict by name.

    A function that fails because one that it builds on does is said to wait for that one. `announce` is told the name
    of each function before it is judged.
    """
    if exercise.name not in known:
        announce(exercise.name)
        answer = getattr(module, exercise.name, None)
        result = judge(exercise, answer, seconds, strict=True)
        if answer is None and result.status == NOT_STARTED:
            result = replace(result, message=f"There is no function {exercise.name} in the file.")
        if result.status == FAILED:
            result = _blame(module, exercise, result, known, seconds, announce)
        known[exercise.name] = result
    return known[exercise.name]


def _blame(module, exercise, result, known, seconds, announce):
    for name in exercise.needs:
        first = verdict(module, BY_NAME[name], known, seconds, announce)
        if first.status in (FAILED, WAITING):
            message = first.message if first.status == WAITING else f"waits for {name}, which is not right yet."
            return replace(result, status=WAITING, message=message, details=(), wrong={}, printed="")
    return result


def unlocks(exercise):
    """Return the names of the functions that build on this one directly."""
    return [other.name for other in LAB if exercise.name in other.needs]
