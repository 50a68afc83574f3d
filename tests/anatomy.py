"""What every chapter notebook must have, as rules that return the faults they find."""

import base64
import re
import statistics
from pathlib import Path

PARTS = [
    "What it is",
    "Why it exists",
    "Under the hood",
    "In production",
    "The misconception",
    "Your turn",
    "Recap",
    "Check yourself",
    "At the whiteboard",
    "Further reading",
]
OPENING = [
    r"\A# Chapter \d+: ",
    r"\n\nYou .+\.\n",
    "\\*\\*By the end you can\\*\\*\n\n- ",
    "\\*\\*What you need first\\.\\*\\* ",
]
OPENING += ["\\*\\*How long it takes\\.\\*\\* "]
MYST = [r"^```\{", r"^:::", r"\{[a-z:+-]+\}`", r"^\([\w-]+\)=\s*$", r"^\+\+\+"]
UNSTABLE = [r"np\.\w+\(", r"\b0x[0-9a-f]{6,}", r"Traceback", r"Warning", r"/(?:home|tmp|Users|root)/"]


def faults(notebook, folder):
    """Return everything that is wrong with a chapter, each fault one line."""
    cells = notebook["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    text = [s for cell, s in zip(cells, sources, strict=True) if cell["cell_type"] == "markdown"]
    code = [(cell, s) for cell, s in zip(cells, sources, strict=True) if cell["cell_type"] == "code"]
    return [
        *opening(cells, sources),
        *parts(text),
        *markdown(text, Path(folder)),
        *code_cells(code),
        *figures(code),
        *outputs(code),
        *exercises(cells, sources),
    ]


def opening(cells, sources):
    """Title, promise, objectives, needs, time; then the imports."""
    for pattern in OPENING:
        if not re.search(pattern, sources[0]):
            yield f"opening: the first cell lacks {pattern!r}"
    if not 3 <= len(re.findall("^- ", sources[0], re.M)) <= 6:
        yield "opening: there should be 3 to 6 things you can do by the end"
    if cells[1]["cell_type"] != "code" or "import" not in sources[1]:
        yield "opening: the second cell should hold the imports"


def parts(text):
    """The fixed parts, each in its place."""
    found = [heading for cell in text for heading in re.findall(r"^## (.+)$", cell, re.M)]
    if found != PARTS:
        yield f"parts: found {found}"
    whiteboard = "\n".join(text).partition("## At the whiteboard")[2].partition("## ")[0]
    if whiteboard.count("<summary>What to say</summary>") != 2:
        yield "parts: the whiteboard needs the interviewer's two follow-ups"
    if "model answer" not in whiteboard:
        yield "parts: the whiteboard needs a model answer"


def markdown(text, folder):
    """Plain Markdown that JupyterLab, GitHub and VS Code show as the book does."""
    for cell in text:
        for pattern in MYST:
            if match := re.search(pattern, cell, re.M):
                yield f"markdown: MyST syntax {match.group()!r}"
        for summary in re.findall(r"<summary>(.*?)</summary>", cell):
            if "$" in summary:
                yield f"markdown: an equation inside a summary, {summary!r}"
        if len(re.findall(r"</summary>\n\n", cell)) != cell.count("<details>"):
            yield "markdown: folded text needs a blank line after its summary"
        for target in re.findall(r"\]\((?!https?:)([^)#]*)", cell):
            if target and not (folder / target).exists():
                yield f"markdown: the link to {target} leads nowhere"


def code_cells(code):
    """Short cells, and claims that end in assertions."""
    lengths = [len([line for line in source.split("\n") if line.strip()]) for _, source in code[1:]]
    if max(lengths) > 25:
        yield f"code: a cell of {max(lengths)} lines"
    if statistics.median(lengths) > 6:
        yield f"code: the median cell has {statistics.median(lengths)} lines"
    if sum(source.count("assert ") for _, source in code) < 10:
        yield "code: fewer than 10 assertions"
    if not any("explore(" in source for _, source in code):
        yield "code: no explorer"


def figures(code):
    """Pictures with alt text, caption and name, their cells folded in the book and in JupyterLab."""
    for cell, source in code:
        drawn = any("image/png" in output.get("data", {}) for output in cell["outputs"])
        meta = cell["metadata"].get("mystnb", {})
        if not drawn or "explore(" in source:  # an explorer brings its own
            continue
        if len(meta.get("image", {}).get("alt", "")) < 40:
            yield f"figures: alt text missing or too short: {source[:40]!r}"
        if not meta.get("figure", {}).get("caption") or not meta["figure"].get("name"):
            yield f"figures: caption or name missing: {source[:40]!r}"
        folded = cell["metadata"].get("jupyter", {}).get("source_hidden")
        if not folded or "hide-input" not in cell["metadata"].get("tags", []):
            yield f"figures: the plotting cell is not folded: {source[:40]!r}"
    for cell, _ in code:
        for output in cell["outputs"]:
            if len(base64.b64decode(output.get("data", {}).get("image/png", ""))) > 30_000:
                yield "figures: a picture of more than 30 KB"


def outputs(code):
    """Every cell was run, in order, and prints what any machine would print."""
    if [cell["execution_count"] for cell, _ in code] != list(range(1, len(code) + 1)):
        yield "outputs: the cells were not run in order"
    for cell, _ in code:
        for output in cell["outputs"]:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                yield f"outputs: an error or warning, {output.get('text', output.get('evalue'))!r}"
            printed = "".join(output.get("text", "")) + "".join(output.get("data", {}).get("text/plain", ""))
            if "text/markdown" in output.get("data", {}):  # a function's source
                continue
            for pattern in UNSTABLE:
                if match := re.search(pattern, printed):
                    yield f"outputs: not the same everywhere, {match.group()!r}"
            for number in re.findall(r"(?<![\w.])\d+\.\d+", printed):
                if len(number.replace(".", "").lstrip("0")) > 4:
                    yield f"outputs: more than four significant digits, {number}"


def exercises(cells, sources):
    """At least three exercises, each checked and solved, and a checked challenge at the whiteboard."""
    joined = "\n".join(sources)
    turn = joined.partition("## Your turn")[2].partition("## Recap")[0]
    board = joined.partition("## At the whiteboard")[2]
    for name, part, least in (("Your turn", turn, 3), ("At the whiteboard", board, 2)):
        checks = len(re.findall(r"^check\(", part, re.M))
        if checks < least:
            yield f"exercises: {name} has {checks} checks, fewer than {least}"
    if turn.count("<summary>Solution</summary>") < len(re.findall(r"^check\(", turn, re.M)):
        yield "exercises: an exercise without a solution"


def solutions(notebook):
    """Return the code of every folded solution, in order."""
    text = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    return [
        code for cell in text for code in re.findall(r"<summary>Solution</summary>\n\n```python\n(.*?)```", cell, re.S)
    ]
