"""Run a notebook's code cells in this process, as its reader would in a kernel, and keep what the cells show."""

import ast
import contextlib
import io
import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "chapters").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem[0].isdigit()]


def cells(path, kind):
    """Return the sources of a notebook's cells of one kind, "code" or "markdown"."""
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(sources):
    """Execute code cells in one namespace and return what each one's last line evaluates to (None if a statement)."""
    namespace, shown = {"__name__": "__main__"}, []
    # What a chapter prints is not of interest here, and how it has NumPy print must not reach other tests.
    with contextlib.redirect_stdout(io.StringIO()), np.printoptions():
        for number, source in enumerate(sources):
            tree = ast.parse(source, filename=f"<cell {number}>")
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"<cell {number}>", "exec"), namespace)
            shown.append(last and eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), namespace))
    return shown


def explorers(path):
    """Return the explorers that a notebook shows, in order."""
    from labkit.explore import Explorer

    return [shown for shown in run(cells(path, "code")) if isinstance(shown, Explorer)]
