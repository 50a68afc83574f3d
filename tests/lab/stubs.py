"""Write labkit/lab/lab.py: what solution.py says of each function, a hint, and nothing more.

Run as `python tests/lab/stubs.py` after a change to solution.py or to a hint.
"""

import ast
import textwrap
from pathlib import Path

from labkit.lab.checker import LAB

FOLDER = Path(__file__).parents[2] / "labkit" / "lab"

HEADER = '''"""The lab: write a GPT forward pass from an empty file, in pure Python.

A vector is a list of floats, a matrix is a list of rows. Take the functions from top to bottom: each uses only those
above it. Replace `raise NotImplementedError` by your own lines, and ask what is right so far:

    python -m labkit.lab check          what passes, and what is likely wrong with what does not
    python -m labkit.lab next           what to do now
    python -m labkit.lab hint NAME      a nudge; hint NAME 2 says more
    pytest test_lab.py -v               the same checks as tests

Where labkit is not installed, `python . check` in this folder does the same.
"""

import math  # noqa: F401
import random  # noqa: F401
'''


def stubs():
    """Return the text of lab.py."""
    text = (FOLDER / "solution.py").read_text(encoding="utf-8")
    lines = text.split("\n")
    hints = {exercise.name: exercise.hints[0] for exercise in LAB}
    pieces, end = [HEADER.rstrip()], 0
    for node in ast.parse(text).body:
        sections = [line for line in lines[end : node.lineno - 1] if line.startswith("# ---")]
        end = node.end_lineno
        if isinstance(node, ast.FunctionDef) and node.name in hints:
            pieces += sections
            docstring = node.body[0]
            hint = textwrap.wrap(f"Hint: {hints[node.name]}", 112)
            body = [f"    # {line}" for line in hint] + ["    raise NotImplementedError"]
            pieces.append("\n".join([*lines[node.lineno - 1 : docstring.end_lineno], *body]))
    return pieces[0] + "\n\n" + "\n\n\n".join(pieces[1:]) + "\n"


if __name__ == "__main__":
    (FOLDER / "lab.py").write_text(stubs(), encoding="utf-8")
