"""Every explorer of the built book in a real browser, held against labkit at each setting it is brought to."""

import functools
import inspect
import json
import random
import re

import numpy as np
import pytest
from notebook import NOTEBOOKS

from labkit.explore import Toggle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def page_of(chapter):
    return f"chapters/{chapter.stem}.html"


@functools.cache
def drawn(explorer, positions):
    return explorer.picture(**setting(explorer, positions))


def setting(explorer, positions):
    chosen = zip(explorer.controls.items(), positions, strict=True)
    return {name: control.values[position] for (name, control), position in chosen}


def start(explorer):
    return tuple(control.values.index(control.start) for control in explorer.controls.values())


class Bench:
    """A page with its explorers, and where their controls should stand."""

    def __init__(self, page, explorers, inside):
        self.page, self.explorers = page, explorers
        self.inside = functools.partial(inside, page)
        self.at = {explorer: start(explorer) for explorer in explorers}
        self.check_published()

    def check_published(self):
        shown = self.page.eval_on_selector_all("figure.explorer", "figures => figures.map((figure) => figure.id)")
        assert shown == [explorer.id for explorer in self.explorers], (
            "the page and the notebook show different explorers"
        )

    def check_all(self):
        """Check that what was not moved did not move."""
        for explorer in self.explorers:
            self.check(explorer)
        assert self.page.faults == []

    def check(self, explorer):
        """Check that everything an explorer shows is what labkit says of its setting."""
        at = self.at[explorer]
        names = [control.names[position] for control, position in zip(explorer.controls.values(), at, strict=True)]
        sliders = [not isinstance(control, Toggle) for control in explorer.controls.values()]
        where, shown = f"{explorer.id} at {names}", self.inside("state", explorer.id)
        assert shown["positions"] == list(at), f"{where}: a control stands elsewhere"
        assert shown["names"] == names, f"{where}: a label says otherwise"
        spoken = [name if slider else None for name, slider in zip(names, sliders, strict=True)]
        assert shown["spoken"] == spoken, f"{where}: a screen reader hears otherwise"
        assert shown["numbers"] == explorer.numbers(**setting(explorer, at)), f"{where}: the numbers are not labkit's"
        for group, (what, function) in explorer.marks.items():
            named = {name: setting(explorer, at)[name] for name in inspect.signature(function).parameters}
            values, marks = np.ravel(function(**named)).tolist(), self.inside("marks", [explorer.id, group, what])
            right = values if what == "text" else pytest.approx(values, rel=0, abs=1e-3)
            assert marks == right, f"{where}: the marks {group} are not labkit's"
        picture = [f"#{explorer.id} .explorer-picture", drawn(explorer, at), not explorer.marks]
        assert self.inside("pictureFaults", picture) == [], f"{where}: the picture is not labkit's"

    def moved(self, explorer, number, position):
        """Note that one control was moved, and check the explorer."""
        self.at[explorer] = (*self.at[explorer][:number], position, *self.at[explorer][number + 1 :])
        self.check(explorer)

    def look(self, explorer):
        return self.page.locator(f"#{explorer.id} .explorer-picture").screenshot()

    def control(self, explorer, number):
        """Find a control as a screen reader would, by its role and name."""
        name, control = list(explorer.controls.items())[number]
        role = "switch" if isinstance(control, Toggle) else "slider"
        # Playwright writes the pattern between slashes, but escapes none in it.
        label = re.compile(rf"^{re.escape(control.label or name).replace('/', '.')}(:|$)")
        return self.page.locator(f"#{explorer.id}").get_by_role(role, name=label)

    def controls(self):
        """Return every explorer with the number of each of its controls, and that control."""
        return [(it, number, at) for it in self.explorers for number, at in enumerate(it.controls.values())]


def check_keyboard(bench):
    """Move every control over all its positions by keyboard; each looks different from the one before."""
    press = bench.page.keyboard.press
    for explorer, number, control in bench.controls():
        found, first = bench.control(explorer, number), start(explorer)[number]
        assert found.evaluate("it => it.tabIndex >= 0"), f"Tab does not reach control {number} of {explorer.id}"
        found.focus()
        before = bench.look(explorer)
        if isinstance(control, Toggle):
            press("Space")
            bench.moved(explorer, number, 1 - first)
            assert bench.look(explorer) != before, f"{explorer.id} looks the same, switched"
            press("Space")
            bench.moved(explorer, number, first)
            continue
        press("Home")
        bench.moved(explorer, number, 0)
        before, last = bench.look(explorer), len(control.values) - 1
        for position in range(1, last + 1):
            press("ArrowRight")
            bench.moved(explorer, number, position)
            after = bench.look(explorer)
            assert after != before, f"{explorer.id} looks the same at step {position} of control {number} as before"
            before = after
        press("ArrowRight")
        bench.moved(explorer, number, last)
        press("ArrowLeft")
        bench.moved(explorer, number, last - 1)
        press("End")
        bench.moved(explorer, number, last)
        press("Home")
        bench.moved(explorer, number, 0)
        for _ in range(first):
            press("ArrowRight")
        bench.moved(explorer, number, first)
    bench.check_all()


def check_mouse(bench):
    """Drag every slider to both ends and the middle, and click every switch and its label."""
    mouse = bench.page.mouse
    for explorer, number, control in bench.controls():
        found, first = bench.control(explorer, number), start(explorer)[number]
        found.evaluate("it => it.scrollIntoView({ block: 'center' })")
        box = found.bounding_box()
        y = box["y"] + box["height"] / 2
        if isinstance(control, Toggle):
            mouse.click(box["x"] + box["width"] / 2, y)
            bench.moved(explorer, number, 1 - first)
            mouse.click(box["x"] + box["width"] + 20, y)
            bench.moved(explorer, number, first)
            continue
        last = len(control.values) - 1
        # The middle of the thumb, 16 px wide, runs from 8 px inside the left end to 8 px inside the right one.
        places = [box["x"] + 8 + (box["width"] - 16) * position / last for position in range(last + 1)]
        mouse.move(places[first], y)
        mouse.down()
        for position in (0, last, last // 2):
            mouse.move(places[position], y, steps=5)
            bench.moved(explorer, number, position)
        mouse.up()
        mouse.click(places[-1], y)
        bench.moved(explorer, number, last)
        mouse.click(places[first], y)
        bench.moved(explorer, number, first)
    bench.check_all()


def samples(explorer, count=30):
    chance = random.Random(explorer.id)
    return [tuple(chance.randrange(len(it.values)) for it in explorer.controls.values()) for _ in range(count)]


def check_samples(bench):
    """Set all controls of an explorer at once, at random."""
    for explorer in bench.explorers:
        for positions in samples(explorer):
            bench.inside("setAll", [explorer.id, positions])
            bench.at[explorer] = positions
            bench.check(explorer)
    bench.check_all()


CHECKS = {"keyboard": check_keyboard, "mouse": check_mouse, "samples": check_samples}


@pytest.fixture
def bench(visit, explorers_of, inside):
    """Open a chapter and its explorers."""
    return lambda chapter, site, **options: Bench(
        visit(site, page_of(chapter), **options), explorers_of(chapter), inside
    )


@pytest.mark.parametrize("by", CHECKS)
def test_explorers(chapter, site, by, bench):
    CHECKS[by](bench(chapter, site))


def test_explorers_stand_in_notebooks_only(path, served, visit):
    if path not in map(page_of, NOTEBOOKS):
        assert visit(served, path).locator("figure.explorer").count() == 0


def check_without_script(bench):
    """Without JavaScript the first frame and its numbers are there, and no control that would not work."""
    for explorer in bench.explorers:
        bench.check(explorer)
        for control in bench.page.locator(f"#{explorer.id} input").all():
            assert not control.is_visible(), f"{explorer.id} shows a control that does nothing"
    assert [fault for fault in bench.page.faults if not re.match(r"request failed: .*\.js\b", fault)] == []


def test_without_script(chapter, site, bench):
    check_without_script(bench(chapter, site, java_script_enabled=False))


def check_print(bench):
    """On paper an explorer shows the setting it was left at, in words, and no control."""
    for explorer, number, control in bench.controls():
        last = len(control.values) - 1
        bench.control(explorer, number).focus()
        bench.page.keyboard.press("Space" if isinstance(control, Toggle) else "End")
        bench.moved(explorer, number, 1 - start(explorer)[number] if isinstance(control, Toggle) else last)
    bench.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    bench.page.emulate_media(media="print")
    for explorer in bench.explorers:
        bench.check(explorer)
        figure = bench.page.locator(f"#{explorer.id}")
        for control in figure.locator("input").all():
            assert not control.is_visible(), f"{explorer.id} prints a control"
        for words in figure.locator("label span, dt, dd, figcaption").all():
            assert words.is_visible(), f"{explorer.id} does not print {words.inner_text()!r}"
    assert bench.page.faults == []


def test_print(chapter, served, bench):
    check_print(bench(chapter, served))


# ---- Planted faults of explorers ----


@pytest.fixture
def plant(explorers_of, served, bench):
    """Open the chapter with the first explorer that has marks, or none, and change its data for one setting.

    That setting is one that the check must come by: the first control at the end where it does not start, or the first
    of the samples.
    """

    def open_changed(with_marks, change, by):
        every = ((chapter, it) for chapter in NOTEBOOKS for it in explorers_of(chapter))
        chapter, explorer = next((chapter, it) for chapter, it in every if bool(it.marks) == with_marks)
        first, *others = start(explorer)
        far = 0 if first else len(next(iter(explorer.controls.values())).values) - 1
        positions = samples(explorer)[0] if by == "samples" else (far, *others)

        def edit(text):
            match = re.search(rf'id="{explorer.id}".*?<script type="application/json">(.*?)</script>', text, re.S)
            data = json.loads(match[1])
            change(data, functools.partial(index, data["sizes"], positions), start(explorer))
            return text[: match.start(1)] + json.dumps(data).replace("</", "<\\/") + text[match.end(1) :]

        return bench(chapter, served, edit={r"\.html": edit})

    return open_changed


def index(sizes, positions, grid):
    """Return where the data hold what is shown at a setting."""
    return np.ravel_multi_index([positions[i] for i in grid["by"]], [sizes[i] for i in grid["by"]])


def spoil_number(data, at, first):
    data["numbers"]["values"][at(data["numbers"])][-1] += "1"


def swap_frame(data, at, first):
    frames = data["frames"]
    frames["values"][at(frames)] = frames["values"][index(data["sizes"], first, frames)]


def spoil_frame(data, at, first):
    frames = data["frames"]
    frames["values"][at(frames)] = frames["values"][at(frames)].replace('d="M ', 'd="M 1 1 L ', 1)


def spoil_opacity(data, at, first):
    grid = next(group for group in data["marks"].values() if group["set"] == "opacity")
    grid["values"][at(grid)][-1] += -0.005 if grid["values"][at(grid)][-1] > 0.5 else 0.005


def spoil_text(data, at, first):
    grid = next(group for group in data["marks"].values() if group["set"] == "text")
    grid["values"][at(grid)][-1] += "1"


@pytest.mark.parametrize("by", CHECKS)
@pytest.mark.parametrize(
    ("with_marks", "change", "message"),
    [
        (False, swap_frame, "the picture is not labkit's"),
        (False, spoil_frame, "the picture is not labkit's"),
        (False, spoil_number, "the numbers are not labkit's"),
        (True, spoil_number, "the numbers are not labkit's"),
        (True, spoil_opacity, "the marks .* are not labkit's"),
        (True, spoil_text, "the marks .* are not labkit's"),
    ],
)
def test_one_wrong_setting_is_seen(with_marks, change, message, by, plant):
    with pytest.raises(AssertionError, match=message):
        CHECKS[by](plant(with_marks, change, by))


@pytest.mark.parametrize(
    ("check", "file", "old", "new", "message"),
    [
        (check_mouse, "explore.js", '"input"', '"keyup"', "a label says otherwise"),
        (check_mouse, "book.css", "cursor:", "pointer-events: none; cursor:", "a control stands elsewhere"),
        (check_keyboard, "explore.js", '"input"', '"pointerup"', "a label says otherwise"),
        (check_keyboard, "explore.js", '"aria-valuetext"', '"title"', "a screen reader hears otherwise"),
        (check_keyboard, "explore.js", "data.frames)", "false)", "the picture is not labkit's"),
        (check_print, "explore.js", "const name =", "console.error('oh'); const name =", "console error: oh"),
        (check_keyboard, ".html", 'type="range"', 'type="range" tabindex="-1"', "Tab does not reach control 0"),
        (
            check_keyboard,
            "book.css",
            ".explorer-picture svg,",
            ".explorer-picture { opacity: 0 } svg,",
            "looks the same",
        ),
        (check_keyboard, ".html", '<figure class="explorer"', "<figure", "show different explorers"),
        (check_keyboard, ".html", "</article>", '<figure class="explorer">', "show different explorers"),
        (check_print, "book.css", "@media print", "@media tty", "prints a control"),
        (check_print, "book.css", "@media print {", "@media print { dl { display: none !important }", "does not print"),
    ],
)
def test_broken_explorers_are_seen(check, file, old, new, message, a_chapter, served, bench):
    with pytest.raises(AssertionError, match=message):
        check(bench(a_chapter, served, edit={re.escape(file): lambda text: text.replace(old, new)}))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("book.css", "display: none;", "", "shows a control that does nothing"),
        (".html", 'role="img"', 'role="img" style="display: none"', "picture is not labkit's"),
        (".html", "<dd", "<dd>1</dd><dd", "numbers are not labkit's"),
    ],
)
def test_a_broken_first_frame_is_seen(file, old, new, message, a_chapter, served, bench):
    edit = {re.escape(file): lambda text: text.replace(old, new)}
    with pytest.raises(AssertionError, match=message):
        check_without_script(bench(a_chapter, served, java_script_enabled=False, edit=edit))
