"""The command that goes with the lab: start, check, next, hint, show."""

import argparse
import ast
import contextlib
import difflib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from . import course
from .exercises import LAB
from .judge import SECONDS
from .result import FAILED, NOT_STARTED, WAITING, Result

HOME = Path(__file__).resolve().parents[1]
PARTS = ("lab.py", "solution.py", "test_lab.py", "__main__.py", "checker")
CHAPTERS = (
    *("embedding", "attention", "softmax", "mask", "heads", "kv_cache"),
    *("rope", "norm", "ffn", "block", "model", "flash"),
)
MEMORY = 4 * 2**30  # what a reader's code may take, where the system can be told


def main(argv=None):
    """Run one command, and return the exit code: 0 if nothing is wrong, 1 if something is, 2 if it was misused."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows ?
    options = _parser().parse_args(argv)
    try:
        return options.run(options)
    except Misuse as fault:
        print(fault, file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever was reading, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class Misuse(Exception):
    """Something asked for that cannot be done; says what to do instead."""


def _parser():
    alone = not __package__.startswith("labkit")
    prog = f"python {_quoted(HOME.name)}" if alone else "python -m labkit.lab"
    parser = argparse.ArgumentParser(prog=prog, description="Write a GPT forward pass from an empty file.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, help, *, folder=True):
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        if folder:
            default = str(HOME) if alone else "."
            sub.add_argument("--dir", default=default, help="the folder with lab.py (default: %(default)s)")
        return sub

    start = command("start", _start, "copy a fresh lab into a folder", folder=False)
    start.add_argument("dir", metavar="DIR")
    start.add_argument("--without-solution", action="store_true", help="leave solution.py out")
    check = command("check", _check, "say what passes, and what is likely wrong with what does not")
    check.add_argument("names", nargs="*", metavar="NAME", help="functions to check (default: all)")
    check.add_argument("--seconds", type=float, default=SECONDS, help="time limit a function (default: %(default)s)")
    following = command("next", _next, "say what to do now")
    following.add_argument("--seconds", type=float, default=SECONDS, help=argparse.SUPPRESS)
    hint = command("hint", _hint, "a hint; a higher level says more", folder=False)
    hint.add_argument("name", metavar="NAME")
    hint.add_argument("level", nargs="?", type=int, default=1, metavar="LEVEL")
    show = command("show", _show, "show the solution of a function, after asking")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--yes", action="store_true", help="do not ask")
    worker = commands.add_parser("worker")  # what check starts; not for hands
    worker.set_defaults(run=_worker)
    return parser


# start


def _start(options):
    target = Path(options.dir)
    if (target / "lab.py").exists():
        raise Misuse(f"{target / 'lab.py'} exists already. Choose another folder, or move it away first.")
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if part == "solution.py" and (options.without_solution or not (HOME / part).exists()):
            continue
        if (HOME / part).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(HOME / part, target / part, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copyfile(HOME / part, target / part)
    (target / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings of a folder above apply
    print(f"A fresh lab is in {target}. Open lab.py there, and start with {LAB[0].name}.")
    print(f"    python {_quoted(target)} check     says what passes")
    print(f"    python {_quoted(target)} next      says what to do now")
    return 0


def _quoted(path):
    return f'"{path}"' if " " in str(path) else str(path)


# check


def _check(options):
    exercises = [_find(name) for name in options.names] or LAB
    results = []
    for result in _judged(options, exercises):
        results.append(result)
        verdict = str(result) if result.status == FAILED else f"{result.headline}{_chapter(result)}"
        print(f"{len(results):>3}/{len(exercises)}  {verdict}".replace("\n", "\n" + " " * 8), flush=True)
    if not options.names:
        print(f"\n{_summary(results)}")
    return 0 if all(result.passed for result in results) else 1


def _find(name):
    found = course.BY_NAME.get(name) or course.BY_NAME.get(f"_{name}")
    if found is None:
        near = difflib.get_close_matches(name, course.BY_NAME, n=1, cutoff=0.4)
        guess = f" Did you mean {near[0]}?" if near else f" It has: {', '.join(course.BY_NAME)}."
        raise Misuse(f"There is no function {name} in the lab.{guess}")
    return found


def _chapter(result):
    return f" (chapter {result.chapter}, {CHAPTERS[result.chapter - 1]})" if result.status == NOT_STARTED else ""


def _summary(results):
    lines = []
    for title, extension in (("The lab", False), ("Extensions", True)):
        part = [r for r in results if course.BY_NAME[r.name].extension == extension]
        done = sum(result.passed for result in part)
        lines.append(f"{title:<12}[{'█' * done}{'░' * (len(part) - done)}]  {done} of {len(part)}")
    todo = next((result for result in results if result.status in (FAILED, NOT_STARTED)), None)
    lines.append(f"Next: {todo.name}." if todo else "Everything passes. You have written a GPT forward pass.")
    return "\n".join(lines)


# next, hint, show


def _next(options):
    for result in _judged(options, LAB):
        if result.status == WAITING or result.passed:
            continue
        exercise = course.BY_NAME[result.name]
        if result.status == FAILED:
            print(f"Mend {result.name}.\n\n{result}")
        else:
            print(f"Write {result.name} (chapter {exercise.chapter}, {CHAPTERS[exercise.chapter - 1]}).")
            print(f"    {_summary_of(exercise, options)}")
        if course.unlocks(exercise):
            print(f"It unlocks {', '.join(course.unlocks(exercise))}.")
        print(f"Stuck? hint {result.name}")
        return 0
    print("Everything passes. You have written a GPT forward pass.")
    return 0


def _summary_of(exercise, options):
    """Return the first line of a function's docstring in the reader's file, or what its first case is about."""
    text = (Path(options.dir) / "lab.py").read_text(encoding="utf-8")
    node = _definition(text, exercise.name)
    docstring = node and ast.get_docstring(node)
    return docstring.split("\n")[0] if docstring else exercise.cases[0].says


def _definition(text, name):
    nodes = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name)
    return next(nodes, None)


def _hint(options):
    exercise = _find(options.name)
    if not 1 <= options.level <= len(exercise.hints):
        raise Misuse(f"{exercise.name} has hints 1 to {len(exercise.hints)}.")
    print(exercise.hints[options.level - 1])
    if options.level < len(exercise.hints):
        print(f"(More: hint {exercise.name} {options.level + 1})")
    else:
        print(f"(That was the last hint. Chapter {exercise.chapter} has the whole story.)")
    return 0


def _show(options):
    exercise = _find(options.name)
    path = next((path for path in (Path(options.dir) / "solution.py", HOME / "solution.py") if path.is_file()), None)
    if path is None:
        raise Misuse("There is no solution.py here.")
    if not options.yes:
        print(f"Show the solution of {exercise.name}? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("Not shown.")
            return 0
    text = path.read_text(encoding="utf-8")
    node = _definition(text, exercise.name)
    if node is None:
        raise Misuse(f"{path} has no function {exercise.name}.")
    lines = text.split("\n")
    first = next((part.lineno for part in node.body if part.lineno > node.body[0].lineno), node.lineno + 1)
    print("\n".join([lines[node.lineno - 1], *lines[first - 1 : node.end_lineno]]))
    return 0


# Judging happens in a process of its own. What no thread can stop (a loop inside C, memory running out, os._exit) ends
# that process and not this one; a new one takes over after the function at fault.


def _judged(options, exercises):
    """Yield the Result of each exercise, in the order of the lab; what they build on is judged before them."""
    path = Path(options.dir) / "lab.py"
    if not path.is_file():
        raise Misuse(f"There is no lab.py in {path.parent.resolve()}. Make one: python -m labkit.lab start DIR")
    wanted = {exercise.name for exercise in exercises}
    involved = wanted.union(*(_all_needs(exercise) for exercise in exercises))
    known, deadly, waiting = {}, set(), [exercise for exercise in LAB if exercise.name in involved]
    while waiting:
        first = waiting[0]
        blocked = next((name for name in _all_needs(first) if name in deadly), None)
        if blocked and first.name not in known:
            known[first.name] = Result(
                first.name, WAITING, first.chapter, f"waits for {blocked}, which is not right yet."
            )
        if first.name in known:
            waiting.pop(0)
            if first.name in wanted:
                yield known[first.name]
            continue
        worker = _Worker(path, waiting, known, options.seconds)
        for result in worker.results():
            known[result.name] = result
            waiting.pop(0)
            if result.name in wanted:
                yield result
            if waiting and deadly & set(_all_needs(waiting[0])):
                break
        if worker.fault or (worker.died and worker.busy is None):
            raise Misuse(worker.fault or f"{path.name} cannot be read: {worker.end}")
        if worker.died:
            guilty = course.BY_NAME[worker.busy]
            deadly.add(guilty.name)
            known[guilty.name] = Result(guilty.name, FAILED, guilty.chapter, worker.end, total=len(guilty.cases))


def _all_needs(exercise):
    return [need for name in exercise.needs for need in (name, *_all_needs(course.BY_NAME[name]))]


class _Worker:
    """A process that judges some exercises of a file."""

    def __init__(self, path, exercises, known, seconds):
        job = {
            "path": str(path),
            "names": [exercise.name for exercise in exercises],
            "known": [asdict(result) for result in known.values()],
            "seconds": seconds,
        }
        self.patience = seconds + 5
        self.busy, self.died, self.fault, self.end = None, False, "", "it ends Python itself."
        self.process = subprocess.Popen(
            [sys.executable, str(HOME / "__main__.py"), "worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self.process.stdin.write(json.dumps(job))
        self.process.stdin.close()

    def results(self):
        """Yield results as they come, until the process ends or says nothing for too long."""
        lines = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()
        try:
            message = {}
            while (line := lines.get(timeout=self.patience)) is not None:
                message = json.loads(line)
                self.busy = message.get("busy", self.busy)
                self.fault = message.get("fault", "")
                if "result" in message:
                    yield _result(message["result"])
            self.died = not self.fault and "done" not in message
        except queue.Empty:
            self.died, self.end = True, "it does not come back. Is there a loop that never ends?"
        finally:
            self.process.kill()
            self.process.wait()

    def _read(self, lines):
        for line in self.process.stdout:
            lines.put(line)
        self.process.stdout.close()
        lines.put(None)


def _result(fields):
    fields["details"] = tuple(tuple(pair) for pair in fields["details"])
    return Result(**fields)


def _worker(options):
    job = json.load(sys.stdin)
    out = sys.stdout
    sys.stdout = sys.stderr  # a line printed by an abandoned thread must not look like a result

    def say(**message):
        print(json.dumps(message), file=out, flush=True)

    _limit_memory()
    module, fault = course.load(job["path"], job["seconds"])
    if fault:
        say(fault=fault)
        return 1
    known = {fields["name"]: _result(fields) for fields in job["known"]}
    for name in job["names"]:
        result = course.verdict(module, course.BY_NAME[name], known, job["seconds"], lambda name: say(busy=name))
        say(result=asdict(result))
    say(done=True)
    return 0


def _limit_memory():
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard))
