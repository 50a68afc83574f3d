"""Fill the generated parts of book/lab.md: the picture, the transcript, and the table of mutants and alternatives.

Run as `python tests/lab/page.py` after a change to an exercise, a mutant or an alternative.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.alternatives import ALTERNATIVES
from lab.mutants import MUTANTS

from labkit.lab.checker import LAB, run_check
from labkit.lab.checker.exercises import CHAPTERS

PAGE = Path(__file__).parents[2] / "book" / "lab.md"

# ------------------------------------------------------------------------------- the picture: what unlocks what

STEPS = (
    ("1 helpers", "matmul"),
    ("2 softmax", "softmax"),
    ("3 norms", "layer_norm"),
    ("4 linear", "linear"),
    ("5 attention", "causal_mask"),
    ("6 heads", "_split_heads"),
    ("7 positions", "_rope_vector"),
    ("8 feed-forward", "gelu"),
    ("9 model", "transformer_block"),
    ("10 cache", "attention_with_kv_cache"),
    ("extensions", "grouped_query_attention"),
)
EDGE, WIDTH, LINE = 300, 480, 20  # where names end and arcs begin, how wide all is, how far apart lines are


def picture():
    """Return an SVG: the functions in their order, with an arc from each to those that build on it."""
    first, places, texts, y = {name: title for title, name in STEPS}, {}, [], 0
    for exercise in LAB:
        title = first.get(exercise.name)
        y += LINE + 8 * bool(title)
        if title:
            texts.append(f'<text x="0" y="{y + 4}" opacity="0.7" font-family="sans-serif">{title}</text>')
        texts.append(f'<text x="{EDGE}" y="{y + 4}" text-anchor="end">{exercise.name}</text>')
        places[exercise.name] = y
    x, arcs = EDGE + 8, []
    for exercise in LAB:
        end = places[exercise.name]
        for need in exercise.needs:
            start = places[need]
            bend = x + 14 + 0.3 * (end - start)
            arcs.append(f'<path d="M{x} {start}C{bend:.0f} {start} {bend:.0f} {end} {x} {end}"/>')
    dots = [f'<circle cx="{x}" cy="{place}" r="2.5"/>' for place in places.values()]
    alt = "The functions of the lab in their order, with an arc from each function to those that build on it"
    return "\n".join(
        [
            '<figure style="margin:0">',
            f'<svg viewBox="0 0 {WIDTH} {y + LINE}" width="{WIDTH}" role="img" aria-label="{alt}"'
            ' style="max-width:100%;height:auto" font-family="monospace" font-size="12.5" fill="currentColor">',
            f'<g fill="none" stroke="currentColor" opacity="0.5">{"".join(arcs)}</g>',
            f"<g>{''.join(dots + texts)}</g>",
            "</svg>",
            "<figcaption>In file order. Arcs go from a function down to those that build on it.</figcaption>",
            "</figure>",
        ]
    )


# --------------------------------------------------------------------- the transcript: three functions, two mistakes

CHECKS = """\
if len({len(row) for row in a}) > 1 or len({len(row) for row in b}) > 1:
    raise ValueError("ragged")
if len(a[0]) != len(b):
    raise ValueError("sizes")
"""
PRODUCT = "return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]"
EXPONENTIALS = """\
e = [math.exp(score - top) for score in x]
return [value / sum(e) for value in e]"""

STORY = (
    ("", "start mylab"),
    ("", "next"),
    (("matmul", PRODUCT), "check matmul"),
    (("matmul", CHECKS + PRODUCT), "check matmul"),
    (("transpose", "return [list(column) for column in zip(*a, strict=True)]"), "check transpose"),
    (("softmax", "top = max(x)\n" + EXPONENTIALS), "check softmax"),
    (
        ("softmax", 'top = max(x)\nif top == float("-inf"):\n    return [0.0] * len(x)\n' + EXPONENTIALS),
        "check softmax",
    ),
)


def transcript():
    """Return what a reader types and sees, from the first command to three functions that pass."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        for edit, words in STORY:
            if edit:
                name, body = edit
                parts.append(f"Edit `lab.py`:\n\n```python\n{_edit(where / 'lab.py', name, body)}\n```")
            output = _type(words, where)
            parts.append(f"```console\n$ python -m labkit.lab {words}\n{output.rstrip()}\n```")
            where = Path(folder) / "mylab"
    return "\n\n".join(parts)


def _type(words, folder):
    done = subprocess.run(
        [sys.executable, "-m", "labkit.lab", *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return done.stdout + done.stderr


def _edit(path, name, body):
    """Replace the body of a function in a file, and return the function without its docstring."""
    text = path.read_text(encoding="utf-8")
    node = next(node for node in ast.parse(text).body if getattr(node, "name", None) == name)
    lines, new = text.split("\n"), ["    " + line for line in body.split("\n")]
    lines[node.body[0].end_lineno : node.end_lineno] = new
    path.write_text("\n".join(lines), encoding="utf-8")
    return "\n".join([lines[node.lineno - 1], *new])


# ------------------------------------------------------------------------------------- the table: mutants × checks


def table():
    """Return how many wrong answers are refused and right ones accepted, and which cases refuse which."""
    rows, details = [], []
    for exercise in (*LAB, *CHAPTERS):
        mutants = [mutant for mutant in MUTANTS if mutant.exercise == exercise.name]
        alternatives = [alternative for alternative in ALTERNATIVES if alternative.exercise == exercise.name]
        verdicts = [_verdict(mutant) for mutant in mutants]
        named = sum(m.diagnosis in v.message for m, v in zip(mutants, verdicts, strict=True))
        accepted = sum(run_check(a.exercise, a.answer, seconds=60).passed for a in alternatives)
        numbers = (len(exercise.cases), len(mutants), sum(v.status == "failed" for v in verdicts), named)
        rows.append((exercise.name, *numbers, len(alternatives), accepted))
        details.append(_detail(exercise, mutants, verdicts))
    total = ["**all**", *(sum(row[i] for row in rows) for i in range(1, 7))]
    head = ("function", "cases", "mutants", "refused", "named rightly", "alternatives", "accepted")
    lines = [_row(head), _row(["---"] + ["---:"] * 6)]
    lines += [_row([f"`{row[0]}`", *row[1:]]) for row in rows] + [_row(total)]
    return "\n".join(lines) + "\n\n" + "\n\n".join(details)


def _verdict(mutant):
    seconds = 0.5 if "does not come back" in mutant.diagnosis else 60
    return run_check(mutant.exercise, mutant.answer, seconds, strict=not mutant.arrays)


def _detail(exercise, mutants, verdicts):
    lines = [f":::{{dropdown}} {exercise.name}: {len(mutants)} mutants × {len(exercise.cases)} cases"]
    lines.append(_row(["mutant", "what the check says", "refused by"]))
    lines.append(_row(["---"] * 3))
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        dots = "".join("●" if case.name in verdict.wrong else "·" for case in exercise.cases)
        lines.append(_row([f"`{mutant.name}`", verdict.message.replace("|", "\\|"), f"`{dots}`"]))
    names = ", ".join(f"`{case.name}`" for case in exercise.cases)
    return "\n".join([*lines, "", f"Cases, from left to right: {names}.", ":::"])


def _row(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


# ------------------------------------------------------------------------------------------------------- the page


def filled(text):
    """Return the page with every part between `<!-- name -->` and `<!-- /name -->` made anew."""
    for name, make in (("picture", picture), ("transcript", transcript), ("table", table)):
        part = f"<!-- {name} -->\n\n{make()}\n\n<!-- /{name} -->"
        text, count = re.subn(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, part=part: part, text, flags=re.S)
        assert count == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
