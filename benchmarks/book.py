"""How long the book takes: each chapter's cells, the whole build from nothing, and the check of every notebook.

Unlike the rest these are shares of the seconds allowed. The build and the check run once: they take minutes.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result, Row

ROOT = Path(__file__).resolve().parent.parent
CHAPTER, BUILD, CHECK = 8, 240, 180  # seconds allowed
PARTS = ("_config.yml", "_toc.yml", "book", "chapters", "labkit", "benchmarks", "requirements.txt", "pyproject.toml")
SMALL = {
    "_toc.yml": "format: jb-book\nroot: chapters/00_small\n",
    "chapters/00_small.ipynb": (
        '{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Small"}, {"cell_type": "code", '
        '"execution_count": 1, "id": "b", "metadata": {}, "outputs": [{"name": "stdout", "output_type": "stream", '
        '"text": "2\\n"}], "source": "print(1 + 1)"}], "metadata": {"kernelspec": {"display_name": "Python 3", '
        '"language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}'
    ),
}


def run(smoke=False):
    with tempfile.TemporaryDirectory() as folder:
        root = _copy(Path(folder) / "book", smoke)
        chapters = {path.stem: _chapter(path, 1 if smoke else 5) for path in sorted(root.glob("chapters/*.ipynb"))}
        check = _seconds(root, "pytest", "chapters", "-q", "-n2", "-pno:cacheprovider")
        build = _seconds(root, "jupyter-book", "build", ".", "-n", "-W", "--keep-going", "-q")
    slowest = max(chapters, key=chapters.get)
    rows = [
        Row("the book", f"running {slowest}, the slowest", f"of {CHAPTER} s", chapters[slowest] / CHAPTER, at_most=1),
        Row("the book", "building it from nothing", f"of {BUILD} s", build / BUILD, at_most=1),
        Row("the book", "checking its notebooks, two workers", f"of {CHECK} s", check / CHECK, at_most=1),
    ]
    return Result(rows, {"seconds": chapters})


def _copy(root, smoke):
    """Copy what the book is built from. In a smoke it has one page of one cell."""
    unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", *(["*.ipynb"] if smoke else []))
    root.mkdir()
    for part in PARTS:
        source, to = ROOT / part, root / part
        shutil.copytree(source, to, ignore=unwanted) if source.is_dir() else shutil.copy(source, to)
    for name in ("conftest.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    for name, text in SMALL.items() if smoke else ():
        (root / name).write_text(text, encoding="utf-8")
    return root


def _chapter(path, rounds):
    """Return the median seconds of running a notebook's cells in a kernel that is up."""
    import nbformat
    from nbclient import NotebookClient

    seconds = []
    for _ in range(rounds):
        client = NotebookClient(nbformat.read(path, as_version=4), resources={"metadata": {"path": str(path.parent)}})
        with client.setup_kernel():
            start = time.perf_counter()
            for number, cell in enumerate(client.nb.cells):
                client.execute_cell(cell, number)
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _seconds(root, command, *arguments):
    """Return how long a command takes that is installed beside this Python. It must succeed."""
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    done = subprocess.run(
        [Path(sys.executable).with_name(command), *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return time.perf_counter() - start
