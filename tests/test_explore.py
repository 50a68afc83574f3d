"""Explorers: what they accept, what a move does with a kernel, and what they become without one."""

import gc
import inspect
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from notebook import NOTEBOOKS, explorers

from labkit.explore import Explorer, Steps, Toggle, explore
from labkit.figures.canvas import Drawing, canvas


def bar(n, tall):
    fig, ax = canvas(height=1)
    ax.bar([0], [n * (2 if tall else 1)])
    ax.set(ylim=(0, 10))
    return fig


def small(**changes):
    given = {
        "readout": lambda n, tall: {"height": n * (1 + tall), "half": n / 2},
        "alt": "one bar",
        "n": Steps([1, 2, 3]),
    }
    return explore(bar, **{**given, "tall": Toggle("twice as tall", start=False), **changes})


def payload(page):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.S)[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Steps([1]), "at least 2 values"),
        (lambda: Steps([1, 2], start=3), "start must be one of"),
        (lambda: Steps([1, 2], names=["one"]), "a name for each value"),
        (lambda: small(wide=Toggle()), r"takes no \['wide'\]"),
        (lambda: explore(bar, readout=lambda n: {"n": n}, alt="", n=Steps([1, 2])), r"needs \['tall'\]"),
        (lambda: small(readout=lambda m: {"m": m}), r"needs \['m'\]"),
        (lambda: small(marks={"bar": ("colour", lambda n: [n])}), "'opacity' or 'text'"),
        (lambda: small(n=Steps(range(1, 62))), "122 settings are too many"),
    ],
)
def test_bad_explorers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_grid_of_120_is_still_made_of_frames():
    assert isinstance(small(n=Steps(range(1, 61))), Explorer)


def test_frames_are_the_pictures_at_every_setting_the_last_control_changing_fastest():
    explorer = small()
    data = payload(explorer.html())
    settings = [{"n": n, "tall": tall} for n in (1, 2, 3) for tall in (False, True)]
    assert data["sizes"] == [3, 2]
    assert data["frames"] == {"by": [0, 1], "values": [explorer.picture(**s) for s in settings]}
    assert data["numbers"]["values"] == [list(explorer.numbers(**s).values()) for s in settings]
    assert data["numbers"]["values"][3] == ["4", "1"]
    assert len(set(data["frames"]["values"])) > 1


def test_grids_span_only_the_controls_that_a_function_names():
    data = payload(small(readout=lambda tall: {"is it": "tall" if tall else "short"}).html())
    assert data["numbers"] == {"by": [1], "values": [["short"], ["tall"]]}


def test_page_needs_nothing_from_elsewhere_and_escapes_what_it_is_given():
    page = small(alt='a "bar" <b>', caption="1 < 2 & 3").html()
    assert 'aria-label="a &quot;bar&quot; &lt;b&gt;"' in page
    assert "1 &lt; 2 &amp; 3" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert page.count("</script>") == 1
    assert "<style" not in page
    assert "<metadata" not in page


def test_controls_are_native_and_named():
    page = small(n=Steps([1, 2, 3], label="how many", start=2, names=["one", "two", "three"])).html()
    slider = re.search(r'<input type="range"[^>]*>', page)[0]
    assert 'min="0" max="2" value="1"' in slider
    assert 'aria-label="how many" aria-valuetext="two"' in slider
    assert "<span>two</span>" in page
    switch = r'<input type="checkbox" role="switch"[^>]*> twice as tall: <span aria-hidden="true">off</span>'
    assert re.search(switch, page)


def test_the_same_call_is_the_same_page_and_ids_keep_explorers_apart():
    one, other = small().html(), small(n=Steps([1, 2, 4])).html()
    assert one == small().html()
    ids = [set(re.findall(r'\bid="([^"]+)"', page)) for page in (one.split("<script")[0], other.split("<script")[0])]
    assert ids[0].isdisjoint(ids[1])
    uses = set(re.findall(r'xlink:href="#([^"]+)"', one)) | set(re.findall(r"url\(#([^)]+)\)", one))
    assert uses
    assert uses <= ids[0]


def test_with_a_kernel_a_move_changes_picture_and_numbers():
    explorer = small()
    box = explorer.live()
    *_, picture, numbers = box.children
    before = picture.value, numbers.value
    explorer.widgets["n"].value = 3
    assert picture.value != before[0]
    assert explorer.picture(n=3, tall=False) in picture.value
    assert "<dd>1.5</dd>" in numbers.value
    explorer.widgets["tall"].value = True
    assert explorer.picture(n=3, tall=True) in picture.value


def test_a_callback_that_fails_is_seen_and_raises():
    def fails(n):
        if n > 1:
            raise ValueError("n < 2, please")
        return canvas()[0]

    explorer = explore(fails, readout=lambda n: {"n": n}, alt="", n=Steps([1, 2]))
    *_, picture, numbers = explorer.live().children
    with pytest.raises(ValueError, match="n < 2, please"):
        explorer.widgets["n"].value = 2
    assert '<pre role="alert">ValueError: n &lt; 2, please</pre>' in picture.value
    assert numbers.value == ""
    explorer.widgets["n"].value = 1
    assert "<svg" in picture.value


def test_a_thousand_moves_leave_no_figure_behind():
    explorer = explore(lambda n: Drawing(figsize=(n, 1)), readout=lambda n: {"n": n}, alt="", n=Steps([1, 2, 3]))
    box = explorer.live()

    def alive():
        gc.collect()
        return sum(isinstance(thing, Figure) for thing in gc.get_objects())

    before = alive()
    for move in range(1000):
        explorer.widgets["n"].value = move % 3 + 1
    assert alive() <= before
    assert pyplot.get_fignums() == []
    assert len(box.children) == 3


def test_a_move_clears_its_figure_away_itself():
    explorer = small()
    explorer.live()
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(thing, Figure) for thing in gc.get_objects())
        for n in (2, 3, 1):
            explorer.widgets["n"].value = n
        assert sum(isinstance(thing, Figure) for thing in gc.get_objects()) == before
        assert not gc.isenabled()  # as it was
    finally:
        gc.enable()
    explorer.widgets["n"].value = 2
    assert gc.isenabled()


def test_a_leak_of_figures_would_be_noticed():
    kept = []

    def hoards(n):
        kept.append(canvas(height=1)[0])
        return kept[-1]

    explorer = explore(hoards, readout=lambda n: {"n": n}, alt="", n=Steps([1, 2]))
    explorer.live()
    before = len(kept)
    explorer.widgets["n"].value = 2
    gc.collect()
    assert sum(isinstance(thing, Figure) for thing in gc.get_objects()) >= before + 1


def test_what_a_notebook_stores(monkeypatch):
    monkeypatch.delenv("LABKIT_STATIC", raising=False)
    bundle = small()._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == "Explorer of n (1 … 3), twice as tall (off … on). At the start: height 1, half 0.5."
    monkeypatch.setenv("LABKIT_STATIC", "1")
    assert sorted(small()._repr_mimebundle_()) == ["text/html", "text/plain"]


def elements(svg):
    """Parse a picture; return its root and its elements by id."""
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    return root, {element.get("id"): element for element in root.iter()}


def with_marks(svg, explorer, setting):
    """Do to a picture what the page's script does: set the opacity or the text of each element of each group."""
    root, by_id = elements(svg)
    for group, (what, function) in explorer.marks.items():
        values = function(**{name: setting[name] for name in inspect.signature(function).parameters})
        for i, value in enumerate(np.ravel(values)):
            drawn = by_id[f"{explorer.id}-{group}-{i}"][0]
            if what == "text":
                drawn.text = str(value)
            else:
                drawn.set("style", f"{drawn.get('style')}; opacity: {value}")
    return root


def canonical(root):
    """Write a picture with its style properties sorted and an opacity, to thousandths, for each element."""
    for element in root.iter():
        if element.get("style"):
            style = {"opacity": "1"} | dict(part.split(": ") for part in element.get("style").split("; "))
            style["opacity"] = f"{float(style['opacity']):.3f}"
            element.set("style", "; ".join(map(": ".join, sorted(style.items()))))
    return ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_marks_turn_the_first_picture_into_any_other(path):
    rng = np.random.default_rng(0)
    for explorer in (explorer for explorer in explorers(path) if explorer.marks):
        start = explorer.picture(**explorer.start)
        for _ in range(12):
            setting = {name: rng.choice(control.values).item() for name, control in explorer.controls.items()}
            wanted = explorer.picture(**setting)
            assert canonical(with_marks(start, explorer, setting)) == canonical(elements(wanted)[0])
            assert explorer._moved(setting) == wanted  # with a kernel


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_frames_that_share_their_places_are_as_if_drawn_alone(path):
    rng = np.random.default_rng(0)
    for explorer in (explorer for explorer in explorers(path) if not explorer.marks):
        for _ in range(6):
            setting = {name: rng.choice(control.values).item() for name, control in explorer.controls.items()}
            assert explorer.picture(**setting) == explorer.figure(**setting).svg(prefix=f"{explorer.id}-")
