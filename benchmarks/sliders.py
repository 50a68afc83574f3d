"""How long a moved control takes: in the built page to the painted frame, in JupyterLab to the kernel and back."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Result, Row, p95

ROOT = Path(__file__).resolve().parent.parent
BOOK = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html"))
SMOKE = "03_softmax"  # the only chapter of a smoke
FRAME = 16  # milliseconds: one frame at 60 Hz
IMMEDIATE = 100  # milliseconds that a hand on a slider does not notice
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

# A message that is posted while a frame is being made arrives once that frame is painted.
PAINTED = """const painted = () => new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); done(); };
    port2.postMessage(null);
});"""

# Browsers hand out input at the start of a frame, so that is where each move starts.
IN_THE_PAGE = f"""async ([number, moves]) => {{
    {PAINTED}
    const figure = document.querySelectorAll("figure.explorer")[number];
    const inputs = [...figure.querySelectorAll("input")];
    const milliseconds = [];
    figure.scrollIntoView({{ block: "center" }});
    for (let move = 0; move < moves; move += 1) {{
        const input = inputs[move % inputs.length];
        await new Promise(requestAnimationFrame);
        const start = performance.now();
        if (input.type === "checkbox") input.checked = !input.checked;
        else input.value = input.value === input.max ? input.min : Number(input.value) + 1;
        input.dispatchEvent(new Event("input", {{ bubbles: true }}));
        await painted();
        milliseconds.push(performance.now() - start);
    }}
    return milliseconds;
}}"""

# From the key that moves a slider to the frame that shows the picture that came back, the first for each key.
IN_JUPYTERLAB = f"""(box) => {{
    {PAINTED}
    let start, picture;
    window.roundTrips = [];
    box.addEventListener("keydown", () => {{
        start = performance.now();
        picture = box.querySelector("svg");
    }}, true);
    new MutationObserver(async () => {{
        const pressed = start, drawn = box.querySelector("svg");
        if (!pressed || !drawn || drawn === picture) return;
        start = undefined;
        await new Promise(requestAnimationFrame);
        await painted();
        window.roundTrips.push(performance.now() - pressed);
    }}).observe(box, {{ childList: true, subtree: true }});
}}"""


def run(smoke=False):
    moves = 3 if smoke else 120
    with _chromium() as browser:
        page = {f"{name}, explorer {i + 1}": each for name, i, each in _in_the_page(browser, moves, smoke)}
        lab = {f"{name}, explorer {i + 1}": each for name, i, each in _in_jupyterlab(browser, moves // 2, smoke)}
    series = {"page": _quantiles(page), "JupyterLab": _quantiles(lab)}
    rows = [_worst("built page, input to painted frame", page, FRAME, "one frame (16 ms)")]
    rows += [_worst("JupyterLab, key to painted picture", lab, IMMEDIATE, "100 ms")]
    return Result(rows, series)


def _worst(where, milliseconds, allowed, unit):
    """Return the row of the explorer that is slowest at 95 of 100 moves."""
    name = max(milliseconds, key=lambda each: p95(milliseconds[each]))
    work = f"{where}: slowest of {len(milliseconds)} ({name})"
    return Row(
        "sliders",
        work,
        f"p95 of {len(milliseconds[name])} moves / {unit}",
        p95(milliseconds[name]) / allowed,
        at_most=1,
    )


def _quantiles(milliseconds):
    return {name: {"median": float(np.median(each)), "p95": p95(each)} for name, each in milliseconds.items()}


def _in_the_page(browser, moves, smoke):
    """Yield the chapter, the number and the milliseconds of every explorer of the built book."""
    pages = sorted(BOOK.glob(f"chapters/{SMOKE if smoke else '*'}.html"))
    if not pages:
        raise FileNotFoundError(f"the book is not built: no chapter in {BOOK} (run `make book`)")
    for path in pages:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.as_uri())
        for number in range(page.locator("figure.explorer").count()):
            page.evaluate(IN_THE_PAGE, [number, 2])  # the first moves warm up
            yield path.stem, number, page.evaluate(IN_THE_PAGE, [number, moves])
        page.close()


def _in_jupyterlab(browser, moves, smoke):
    """Yield the same for every explorer in JupyterLab with a live kernel."""
    import nbformat

    with _jupyterlab() as lab:
        for path in sorted((ROOT / "chapters").glob(f"{SMOKE if smoke else '*'}.ipynb")):
            lab.put(path.name, nbformat.read(path, as_version=4))
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            lab.run_all(page, path.name)
            boxes = page.locator(".jp-OutputArea-output .widget-vbox")
            boxes.first.wait_for()
            for number in range(boxes.count()):
                yield path.stem, number, _round_trips(page, boxes.nth(number), moves)
            page.close()
            lab.stop_kernels()


def _round_trips(page, box, moves):
    """Return the milliseconds of so many steps of a box's first slider, from end to end. One more step warms up."""
    box.evaluate(IN_JUPYTERLAB)
    handle, key = box.locator(".noUi-handle").first, "ArrowRight"
    for move in range(moves + 1):
        handle.focus()
        now, last = (handle.get_attribute(f"aria-value{which}") for which in ("now", "max"))
        key = {last: "ArrowLeft", "0.0": "ArrowRight"}.get(now, key)
        page.keyboard.press(key)
        page.wait_for_function("count => window.roundTrips.length === count", arg=move + 1)
    return page.evaluate("window.roundTrips")[1:]


@contextlib.contextmanager
def _chromium():
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, names)]), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def _jupyterlab():
    """Start the JupyterLab that the browser tests use."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]
    from test_jupyterlab import Lab

    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            lab.wait()
            yield lab
        finally:
            lab.stop()
