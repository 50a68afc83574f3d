"""The chapters in a real JupyterLab with a live kernel: every cell runs, and every explorer moves as labkit says."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import pytest
from notebook import ROOT, explorers

from labkit.explore import Toggle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = """() => {
    const { cells } = jupyterapp.shell.currentWidget.content.model;
    return [...cells].filter((cell) => cell.type === "code" && cell.sharedModel.source.trim())
        .map((cell) => ({ count: cell.executionCount, state: cell.executionState, outputs: cell.outputs.toJSON() }));
}"""
READY = """() => {
    const kernel = jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
DONE = f"""() => {{
    const cells = ({CELLS})();
    const failed = cells.some((cell) => cell.outputs.some((output) => output.output_type === "error"));
    return cells.every((cell) => cell.state === "idle" && (cell.count || failed));
}}"""


class Lab:
    """A JupyterLab of its own, with nobody's settings but these, and a folder of notebooks."""

    def __init__(self, folder):
        self.folder = folder / "chapters"
        self.folder.mkdir()
        settings = {
            "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page, seen or not
            "apputils-extension/notification": {"checkForUpdates": False, "fetchNews": "false"},
        }
        for name, values in settings.items():
            file = folder / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(values))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.folder,
            "ServerApp.open_browser": False,
            "ServerApp.allow_root": True,
            "ServerApp.disable_check_xsrf": True,
            "IdentityProvider.token": "",
            "LabApp.expose_app_in_browser": True,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "LabApp.news_url": None,
            "LabApp.user_settings_dir": folder / "settings",
            "LabApp.workspaces_dir": folder / "workspaces",
        }
        kinds = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())],
            env={**os.environ, **{kind: str(folder / kind) for kind in kinds}, "PYTHONPATH": path},
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )

    def wait(self):
        """Wait until the server answers."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return urllib.request.urlopen(f"{self.address}/api/status").close()
            except urllib.error.URLError:
                time.sleep(0.2)
        self.log.seek(0)
        pytest.fail(f"JupyterLab does not start:\n{self.log.read()}")

    def put(self, path, notebook):
        """Put a notebook in the folder, without what it printed elsewhere."""
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, self.folder / path)

    def run_all(self, page, path):
        """Open a notebook of the folder in a page, run all its cells, and wait until they are done."""
        page.goto(f"{self.address}/lab/tree/{path}?reset")
        page.locator(".jp-Notebook").wait_for()
        page.wait_for_function(READY, timeout=120_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.wait_for_function(DONE, timeout=120_000)

    def stop_kernels(self):
        with urllib.request.urlopen(f"{self.address}/api/kernels") as reply:
            kernels = json.load(reply)
        for kernel in kernels:
            address = f"{self.address}/api/kernels/{kernel['id']}"
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    server = Lab(tmp_path_factory.mktemp("jupyterlab"))
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.fixture
def run_all(lab, browser):
    """Open a notebook in a browser and run all its cells from the menu."""
    contexts = []

    def run(name, notebook):
        lab.put(name, notebook)
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.foreign = []
        page.on("request", lambda it: it.url.startswith((lab.address, "data:", "blob:")) or page.foreign.append(it.url))
        lab.run_all(page, name)
        return page

    yield run
    for context in contexts:
        context.close()
    lab.stop_kernels()


def check_run(page):
    """Every cell ran, in order, and none failed or wrote to stderr."""
    ran = page.evaluate(CELLS)
    bad = [it for cell in ran for it in cell["outputs"] if it["output_type"] == "error" or it.get("name") == "stderr"]
    assert not bad, bad
    assert [cell["count"] for cell in ran] == list(range(1, len(ran) + 1))
    assert page.foreign == []


class LiveExplorer:
    """One explorer of a running notebook."""

    def __init__(self, page, number, explorer, inside, patience=15):
        self.page, self.number, self.explorer, self.inside = page, number, explorer, inside
        self.box = page.locator(".jp-OutputArea-output .widget-vbox").nth(number)
        self.box.wait_for()
        self.box.evaluate("(box, id) => { box.id = id; }", f"live-{number}")
        self.setting, self.patience = dict(explorer.start), patience

    def check(self, name, position):
        """Note that a control was moved, and wait until all that labkit says of the new setting stands there."""
        self.setting[name] = self.explorer.controls[name].values[position]
        numbers, picture = self.explorer.numbers(**self.setting), self.explorer.picture(**self.setting)
        end = time.monotonic() + self.patience
        while (faults := self.faults(numbers, picture)) and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        assert not faults, f"{self.explorer.id} at {self.setting}: {faults}"

    def faults(self, numbers, picture):
        pairs = "pairs => Object.fromEntries(pairs.map((it) => [...it.children].map((text) => text.textContent)))"
        shown = self.box.locator("dl > div").evaluate_all(pairs)
        wrong = [f"the numbers are {shown}, not {numbers}"] if shown != numbers else []
        return wrong + self.inside(self.page, "pictureFaults", [f"#live-{self.number}", picture, True])

    def look(self):
        return self.box.locator("svg").evaluate("svg => svg.outerHTML")

    def control(self, name):
        """Find a control: the widgets of each kind stand in the order of the controls."""
        kind = type(self.explorer.controls[name])
        same = [other for other, control in self.explorer.controls.items() if type(control) is kind]
        return self.box.locator("input[type=checkbox]" if kind is Toggle else ".noUi-handle").nth(same.index(name))


def check_slider(live, name):
    """Step a slider by the arrow keys, drag it to both ends, and bring it back."""
    control, handle, before = live.explorer.controls[name], live.control(name), live.look()
    first, last, press = control.values.index(control.start), len(control.values) - 1, live.page.keyboard.press
    there, back, step = ("ArrowRight", "ArrowLeft", 1) if first < last else ("ArrowLeft", "ArrowRight", -1)
    handle.focus()
    press(there)
    live.check(name, first + step)
    assert live.look() != before, f"{live.explorer.id} looks the same at {live.setting}"
    press(back)
    live.check(name, first)
    handle.scroll_into_view_if_needed()
    track = handle.locator("xpath=ancestor::*[contains(@class, 'noUi-target')]").bounding_box()
    for position in (0, last, first):
        grip = handle.bounding_box()
        y = grip["y"] + grip["height"] / 2
        live.page.mouse.move(grip["x"] + grip["width"] / 2, y)
        live.page.mouse.down()
        live.page.mouse.move(track["x"] + track["width"] * position / last, y, steps=2)
        live.page.mouse.up()
        live.check(name, position)


def check_toggle(live, name):
    """Switch a toggle over and back."""
    start, before = live.explorer.controls[name].start, live.look()
    live.control(name).click()
    live.check(name, int(not start))
    assert live.look() != before, f"{live.explorer.id} looks the same at {live.setting}"
    live.control(name).click()
    live.check(name, int(start))


def check_explorers(page, explorers, inside):
    boxes = page.locator(".jp-OutputArea-output .widget-vbox")
    if explorers:
        boxes.nth(len(explorers) - 1).wait_for()
    assert boxes.count() == len(explorers), f"{boxes.count()} explorers are shown of {len(explorers)}"
    for number, explorer in enumerate(explorers):
        live = LiveExplorer(page, number, explorer, inside)
        for name, control in explorer.controls.items():
            (check_toggle if isinstance(control, Toggle) else check_slider)(live, name)


def test_chapter(chapter, run_all, explorers_of, inside):
    page = run_all(chapter.name, nbformat.read(chapter, as_version=4))
    check_run(page)
    check_explorers(page, explorers_of(chapter), inside)


# ---- Planted faults ----


def planted(*sources):
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


def test_a_failing_cell_is_seen(run_all):
    page = run_all("planted.ipynb", planted("import warnings; warnings.warn('mind the gap')", "1 / 0", "y = 2"))
    with pytest.raises(AssertionError) as seen:
        check_run(page)
    assert "mind the gap" in str(seen.value)
    assert "ZeroDivisionError" in str(seen.value)


def line(height="n", square="n * n"):
    """Return the source of an explorer of a line that is n high and of one of two colours."""
    return f"""
from labkit.explore import Steps, Toggle, explore
from labkit.figures.canvas import canvas

def drawn(n, on):
    fig, ax = canvas()
    ax.plot([0, {height}], color="red" if on else "blue")
    ax.set_ylim(0, 9)
    return fig

explore(drawn, readout=lambda n, on: dict(square={square}), alt="a line", n=Steps([1, 2, 3]), on=Toggle("switch"))
"""


WRONG = [
    # shown, expected, complaint
    (line(height="3"), line(height="3"), "looks the same at {'n': 2"),
    (line(height="n + (n == 2) / 7"), line(), r"'n': 2,.*/path: d M"),
    (line(square="n * n + (n == 2)"), line(), r"the numbers are {'square': '5'}, not {'square': '4'}"),
    (line(square="n * n // (n != 2)"), line(), r"the numbers are {}, not {'square': '4'}"),
]


def test_wrong_explorers_are_seen(run_all, inside, tmp_path):
    page = run_all("planted.ipynb", planted(*(shown for shown, _, _ in WRONG)))
    check_run(page)
    nbformat.write(planted(*(expected for _, expected, _ in WRONG)), tmp_path / "right.ipynb")
    for number, explorer in enumerate(explorers(tmp_path / "right.ipynb")):
        live = LiveExplorer(page, number, explorer, inside, patience=2)
        with pytest.raises(AssertionError, match=WRONG[number][2]):
            check_slider(live, "n")
    alert = page.get_by_role("alert").filter(has_text="ZeroDivisionError")
    assert alert.is_visible(), "an error in a callback is not shown"
    with pytest.raises(AssertionError, match="4 explorers are shown of 3"):
        check_explorers(page, [explorer] * 3, inside)
