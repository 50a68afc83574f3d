"""Run a reader's code without letting it hang, print, ask, exit or raise."""

import builtins
import contextlib
import io
import sys
import threading
import time
import warnings
from dataclasses import dataclass


class OutOfTime(BaseException):
    """Raised inside a reader's function that runs too long. Not an Exception, so that `except Exception` lets it by."""


@dataclass
class Outcome:
    """What a call came to: a value or an error, and what it printed on the way."""

    value: object = None
    error: BaseException | None = None
    printed: str = ""


def contain(call, seconds):
    r"""Return the outcome of `call()`, whatever it does, after little more than `seconds`.

    The call runs in a thread of its own, because a thread can be told to stop and, if it does not listen, be left
    behind. Where there are no threads (Python in a browser) a trace function watches the clock instead.

    Examples
    --------
    >>> contain(lambda: print("half of 3") or 3 / 2, seconds=5)
    Outcome(value=1.5, error=None, printed='half of 3\n')
    >>> contain(lambda: 1 / 0, seconds=5).error
    ZeroDivisionError('division by zero')
    """
    outcome, printed = Outcome(), io.StringIO()

    def work():
        try:
            outcome.value = call()
        except BaseException as error:
            outcome.error = error

    with _quiet(printed):
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            try:
                _watch(work, seconds)
            except OutOfTime as error:  # the time was up before the call had begun
                outcome.error = error
        else:
            try:
                thread.join(seconds)
            except BaseException:  # the reader has pressed Ctrl-C
                _stopped(thread)
                raise
            if thread.is_alive() and not _stopped(thread):
                outcome = Outcome(error=OutOfTime())
    outcome.printed = printed.getvalue()
    return outcome


def attempt(call):
    """Return the outcome of a call to code that is known to behave: it may raise, no more."""
    try:
        return Outcome(value=call())
    except Exception as error:
        return Outcome(error=error)


@contextlib.contextmanager
def _quiet(printed):
    """Send what is printed to `printed`, offer nothing to read, and hold warnings back."""
    stdin, sys.stdin = sys.stdin, io.StringIO()
    ask, builtins.input = builtins.input, _nobody_answers
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdin, builtins.input = stdin, ask


def _nobody_answers(*prompt):
    raise EOFError("input() has nobody to answer it here")


def _stopped(thread, tries=20):
    """Raise OutOfTime inside a thread, again if it is swallowed, and return whether the thread ended."""
    import ctypes  # not everywhere that there are no threads

    for _ in range(tries):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime))
        thread.join(0.05)
        if not thread.is_alive():
            return True
    return False


def _watch(work, seconds):
    """Run `work` in this thread and raise OutOfTime at the first line it executes past its time."""
    deadline = time.monotonic() + seconds

    def tick(frame, event, argument):
        if time.monotonic() > deadline:
            raise OutOfTime
        return tick

    before = sys.gettrace()
    sys.settrace(tick)
    try:
        work()
    finally:
        sys.settrace(before)
