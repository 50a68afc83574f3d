"""The build of the book: whatever is wrong makes it fail, the second time as much as the first."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from notebook import ROOT

TOC = "format: jb-book\nroot: book/index\nchapters:\n  - file: chapters/01_tiny\n"


@pytest.fixture
def book(tmp_path):
    """A book of one page and one small notebook, with this project's own configuration and extension."""
    (tmp_path / "book").mkdir()
    (tmp_path / "chapters").mkdir()
    shutil.copy(ROOT / "_config.yml", tmp_path)
    shutil.copy(ROOT / "book" / "transformer_book.py", tmp_path / "book")
    shutil.copytree(ROOT / "book" / "assets", tmp_path / "book" / "assets")
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "book" / "index.md").write_text("# Tiny\n\nSee {ref}`ch-tiny` and $x^2$.\n")
    write_notebook(tmp_path)
    return tmp_path


def write_notebook(book, code="from labkit.figures.canvas import canvas\ncanvas(height=1)[0]", text=""):
    metadata = {"mystnb": {"image": {"alt": "an empty picture"}, "figure": {"caption": "Nothing.", "name": "fig-x"}}}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    notebook.cells = [
        nbformat.v4.new_markdown_cell(f"# Chapter 1: Tiny\n\n{text}"),
        nbformat.v4.new_code_cell(code, metadata=metadata),
    ]
    nbformat.write(notebook, book / "chapters" / "01_tiny.ipynb")


def build(book):
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", ".", "-n", "-W", "--keep-going"]
    environment = {name: value for name, value in os.environ.items() if name != "LABKIT_STATIC"}
    return subprocess.run(command, cwd=book, capture_output=True, text=True, env=environment, timeout=300)


def page(book, name="chapters/01_tiny"):
    return (book / "_build" / "html" / f"{name}.html").read_text(encoding="utf-8")


def test_a_sound_book_builds_and_an_edit_always_shows(book):
    result = build(book)
    assert result.returncode == 0, result.stdout + result.stderr
    assert '<svg class="book-figure" role="img" aria-label="an empty picture"' in page(book)
    assert 'class="katex"' in page(book, "book/index")
    assert 'href="../chapters/01_tiny.html#chapter-1-tiny"' in page(book, "book/index")
    helper = book / "chapters" / "helper.py"  # stands for labkit: what a notebook imports changes, not the notebook
    write_notebook(book, "from helper import word\nprint(word)")
    helper.write_text("word = 'before'\n")
    assert build(book).returncode == 0
    assert ">before" in page(book)
    helper.write_text("word = 'and after'\n")
    assert build(book).returncode == 0
    assert ">and after" in page(book)


def fail_a_cell(book):
    write_notebook(book, "assert 1 + 1 == 3")


def break_references(book):
    (book / "book" / "index.md").write_text("# Tiny\n\n{ref}`ch-nowhere`\n\n```{nothing}\n```\n")
    write_notebook(book, text="[gone](../book/gone.md), [also gone](../book/index.md#gone)")


def break_an_equation(book):
    write_notebook(book, text="$\\frac{1$")


FAULTS = {
    fail_a_cell: ["AssertionError"],
    break_references: ["undefined label: 'ch-nowhere'", "Unknown directive type", "gone.md", "id not found"],
    break_an_equation: ["KaTeX cannot render"],
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_fails_the_build_twice(book, fault):
    fault(book)
    for _ in range(2):
        result = build(book)
        assert result.returncode != 0
        for message in FAULTS[fault]:
            assert message in result.stdout + result.stderr
