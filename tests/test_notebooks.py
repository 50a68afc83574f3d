"""The chapters as notebooks: their anatomy, their solutions, and assertions that notice when labkit is broken."""

import copy
import json
import re

import mutation
import pytest
from anatomy import faults, solutions
from chapter_mutants import MUTANTS
from notebook import CHAPTERS, NOTEBOOKS, ROOT, cells, explorers, run

from labkit.figures.canvas import Drawing, canvas
from labkit.lab import run_check

IDS = [path.stem for path in CHAPTERS]


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CHAPTERS, ids=IDS)
def test_anatomy(path):
    assert faults(load(path), path.parent) == []


def first(notebook, kind, having=""):
    return next(c for c in notebook["cells"] if c["cell_type"] == kind and having in "".join(c["source"]))


def plant(kind, having, old, new):
    """Return a fault to plant: a replacement in the first cell of a kind that has some text."""

    def change(notebook):
        cell = first(notebook, kind, having)
        source = "".join(cell["source"])
        assert old in source
        cell["source"] = source.replace(old, new)

    return change


def plant_output(text):
    def change(notebook):
        cell = first(notebook, "code", "print(")
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]

    return change


def forget(*keys):
    def change(notebook):
        inner = first(notebook, "code", "figures.softmax_curve")["metadata"]
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return change


def lose_explorers(notebook):
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace("explore(", "print(")


PLANTED = {
    "no promise": (plant("markdown", "# Chapter", "You will", "It will"), "opening"),
    "no objectives": (plant("markdown", "# Chapter", "- ", "* "), "opening"),
    "a part renamed": (plant("markdown", "## Recap", "## Recap", "## Summary"), "parts"),
    "a follow-up lost": (plant("markdown", "What to say", "What to say", "Say"), "parts"),
    "a directive": (plant("markdown", "## Recap", "## Recap", "```{note}\n```\n## Recap"), "markdown"),
    "a role": (plant("markdown", "## Recap", "Softmax", "{ref}`ch-softmax`"), "markdown"),
    "an equation in a summary": (plant("markdown", "<summary>Two", "differ by 2.", "differ by $2$."), "markdown"),
    "a dead link": (plant("markdown", "# Chapter", "notation.md", "nowhere.md"), "markdown"),
    "no blank line": (plant("markdown", "<summary>Solution", "</summary>\n\n", "</summary>\n"), "markdown"),
    "a long cell": (plant("code", "def plain_softmax", "def", "x = 1\n" * 22 + "def"), "code"),
    "no explorer": (
        lambda nb: [c.update(source="pass") for c in nb["cells"] if "explore(" in str(c["source"])],
        "code",
    ),
    "no alt text": (forget("mystnb", "image"), "figures"),
    "no caption": (forget("mystnb", "figure", "caption"), "figures"),
    "an open plotting cell": (forget("jupyter"), "figures"),
    "an address": (plant_output("<object at 0x7f3a2b4c5d6e>"), "outputs"),
    "a NumPy repr": (plant_output("np.float64(0.5)"), "outputs"),
    "five digits": (plant_output("0.12345"), "outputs"),
    "cells out of order": (lambda nb: first(nb, "code").update(execution_count=7), "outputs"),
    "an exercise unchecked": (plant("code", 'check("entropy"', "check(", "print("), None),
    "a solution lost": (plant("markdown", "<summary>Solution", "Solution", "Answer"), "exercises"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_seen(name):
    change, kind = PLANTED[name]
    notebook = load(ROOT / "chapters" / "03_softmax.ipynb")
    changed = copy.deepcopy(notebook)
    change(changed)
    found = faults(changed, ROOT / "chapters")
    if kind is None:  # three exercises are enough: one fewer than four is no fault, two fewer is
        assert found == []
        plant("code", 'check("softmax"', "check(", "print(")(changed)
        found, kind = faults(changed, ROOT / "chapters"), "exercises"
    assert any(fault.startswith(kind) for fault in found), found


@pytest.mark.parametrize("path", CHAPTERS, ids=IDS)
def test_solutions_pass_the_chapters_checks(path):
    notebook = load(path)
    checks = re.findall(r'^check\("(\w+)", (\w+)\)', "\n".join(cells(path, "code")), re.M)
    namespace = {}
    exec("import math\nimport numpy as np\n" + "\n".join(solutions(notebook)), namespace)
    assert len(checks) >= 5
    for exercise, name in checks:
        assert name in namespace, f"no solution defines {name}"
        result = run_check(exercise, namespace[name])
        assert result.passed, f"{exercise}: {result}"


def test_a_wrong_solution_is_refused():
    code = solutions(load(ROOT / "chapters" / "03_softmax.ipynb"))[0]
    assert "score - top" in code
    namespace = {}
    exec("import math\n" + code.replace("score - top", "score"), namespace)
    assert not run_check("softmax", namespace["my_softmax"]).passed


def test_every_chapter_has_mutants():
    assert sorted(MUTANTS) == sorted(IDS)


@pytest.mark.parametrize("path", CHAPTERS, ids=IDS)
def test_chapter_runs_twice_in_one_process(path):
    code = cells(path, "code")
    run([*code, *code])


@pytest.mark.parametrize(("chapter", "mutant"), [(c, m) for c, mutants in MUTANTS.items() for m in mutants])
def test_chapter_turns_red_when_labkit_is_broken(chapter, mutant):
    module, function, old, new = mutant
    code = cells(ROOT / "chapters" / f"{chapter}.ipynb", "code")
    with mutation.apply(module, function, old, new), pytest.raises((AssertionError, RuntimeWarning)):
        run(code)


def test_a_harmless_change_leaves_the_chapter_green():
    code = cells(ROOT / "chapters" / "03_softmax.ipynb", "code")
    with mutation.apply("softmax", "softmax", "e = np.exp(x - top)", "e = np.exp(-(top - x))"):
        run(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_picture_uses_an_id_twice(path):
    for drawing in run(cells(path, "code")):
        if isinstance(drawing, Drawing):
            assert repeated_ids(drawing) == []


def repeated_ids(drawing):
    ids = re.findall(r'\bid="([^"]+)"', drawing.svg())
    return sorted({i for i in ids if ids.count(i) > 1})


def test_an_id_used_twice_is_seen():
    drawing, (left, right) = canvas(ncols=2)
    for ax in (left, right):
        ax.text(0.5, 0.5, "twice", gid="same")
    assert repeated_ids(drawing) == ["same"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_explorers_work_at_both_ends_of_every_control(path):
    for explorer in explorers(path):
        explorer.live()
        for name, control in explorer.controls.items():
            for value in (control.values[0], control.values[-1]):
                explorer.widgets[name].value = value  # raises if the callback does
