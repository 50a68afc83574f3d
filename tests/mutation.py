"""Break a function of labkit on purpose, to see whether anything notices.

Only the function's code object is swapped, so everyone who holds the function, under whatever name, runs the broken
one, while its printed source stays as it is. Run as a script, this file puts a test file to the proof: see `outcomes`.
"""

import contextlib
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.source import fold

ROOT = Path(__file__).resolve().parent.parent


def swap(module_name, function_name, old, new):
    """Break a function until the returned `undo` is called.

    Parameters
    ----------
    module_name : str
        A module inside labkit, such as "softmax".
    function_name : str
        A function in it, or a method or property such as "KVCache.append".
    old, new : str
        A fragment of the function's source that occurs exactly once outside its docstring, and what to put there.

    Raises
    ------
    ValueError
        If the fragment does not occur exactly once, or the function is a closure.
    """
    name = f"labkit.{module_name}"
    function = importlib.import_module(name)
    for part in function_name.split("."):
        function = _function(inspect.getattr_static(function, part))
    text = fold(inspect.getsource(function))
    if (found := text.count(old)) != 1:
        raise ValueError(f"{old!r} occurs {found} times in the source of {name}.{function_name}, expected once")
    before = function.__code__, function.__defaults__, function.__kwdefaults__
    scope = dict(function.__globals__)
    exec(compile(text.replace(old, new), f"<mutant of {function_name}>", "exec"), scope)
    mutant = _function(scope[function_name.split(".")[-1]])
    place = {"co_filename": before[0].co_filename, "co_firstlineno": before[0].co_firstlineno}
    _set(function, mutant.__code__.replace(**place), mutant.__defaults__, mutant.__kwdefaults__)
    return lambda: _set(function, *before)


@contextlib.contextmanager
def apply(module_name, function_name, old, new):
    """Break a function for the length of a `with` block; the arguments are those of `swap`."""
    undo = swap(module_name, function_name, old, new)
    try:
        yield
    finally:
        undo()


def outcomes(test_file, mutants):
    """Run a test file in a process of its own, first as it is and then once for each mutant, up to the first failure.

    Parameters
    ----------
    test_file : path
    mutants : list of (module_name, function_name, old, new)

    Returns
    -------
    list of [int, str]
        For the unbroken functions and for each mutant in turn: pytest's exit code (0 = all passed, 1 = a test failed;
        anything else means that no test has judged; −1 that there is no such mutant), and the name of the test that
        failed.
    """
    command = [sys.executable, __file__, str(test_file)]
    done = subprocess.run(command, input=json.dumps(mutants), capture_output=True, text=True, cwd=ROOT, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class _FirstFailure:
    def __init__(self):
        self.name = ""

    def pytest_configure(self):
        # One failure is enough: there is no need to search for the smallest example, or to explain it.
        from hypothesis import Phase, settings

        settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.name:
            self.name = report.nodeid


def _run(test_file):
    first = _FirstFailure()
    # Without the project's own options: a worker of xdist would be another process, in which nothing is broken.
    options = ["-x", "-q", "--no-header", "--tb=no", "--override-ini=addopts=", "--import-mode=importlib"]
    # nbval and cov slow it down for nothing; unraisableexception collects garbage for half the time.
    for plugin in ("cacheprovider", "randomly", "xdist", "nbval", "cov", "unraisableexception"):
        options += ["-p", f"no:{plugin}"]
    return [int(pytest.main([*options, test_file], plugins=[first])), first.name]


def _main(test_file, mutants):
    results = [_run(test_file)]
    for mutant in mutants:
        try:
            with apply(*mutant):
                results.append(_run(test_file))
        except (
            AttributeError,
            SyntaxError,
            ValueError,
        ) as error:  # the function has changed since: there is no such mutant
            results.append([-1, f"{type(error).__name__}: {error}"])
    print(f"\n{json.dumps(results)}")


def _function(attribute):
    """Return the plain function inside a property, a static or a class method."""
    for inner in ("fget", "__func__"):
        attribute = getattr(attribute, inner, attribute)
    return attribute


def _set(function, code, defaults, keyword_defaults):
    function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keyword_defaults


if __name__ == "__main__":
    _main(sys.argv[1], json.load(sys.stdin))
