"""What all pictures share: colours, PNG and SVG. Images are never compared; pictures are tested on what they plot."""

import io
import re

import matplotlib
import numpy as np
import pytest
from PIL import Image

from labkit.figures import canvas, softmax

COLOURS = [canvas.BLUE, canvas.ORANGE, canvas.GREEN, canvas.RED, canvas.GREY]


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in matplotlib.colors.to_rgb(colour)]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("background", ["white", "#121212"])
def test_colours_can_be_told_from_both_backgrounds(colour, background):
    high, low = sorted([luminance(colour), luminance(background)], reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 3


def test_a_png_is_the_same_every_time_and_small():
    drawn = softmax.saturation(64, True).png()
    assert drawn == softmax.saturation(64, True).png()
    assert len(drawn) < 30_000
    assert Image.open(io.BytesIO(drawn)).size == (624, 300)


def test_svg_for_a_page():
    svg = softmax.temperature_curves([1, 2], [[0.5, 0.5], [0.6, 0.4]]).svg("p-")
    assert svg == softmax.temperature_curves([1, 2], [[0.5, 0.5], [0.6, 0.4]]).svg("p-")
    assert svg.startswith('<svg viewBox="0 0 ')
    for gone in ("<style", "<metadata", "<?xml", "<!--", "#000000", "http"):
        assert gone not in svg
    assert "currentColor" in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    assert all(i.startswith("p-") for i in ids)
    assert not re.search(r"\d\.\d{4}", svg)


def test_what_a_drawing_shows_depends_on_the_book_being_built(monkeypatch):
    drawing = softmax.temperature_curves([1, 2], [[0.5, 0.5], [0.6, 0.4]])
    monkeypatch.delenv("LABKIT_STATIC", raising=False)
    assert sorted(drawing._repr_mimebundle_()) == ["image/png", "text/plain"]
    monkeypatch.setenv("LABKIT_STATIC", "1")
    assert sorted(drawing._repr_mimebundle_()) == ["image/svg+xml", "text/plain"]


def test_places_are_found_once_for_pictures_alike_and_anew_for_others():
    def drawing(label, top=1, second=None):
        fig, ax = canvas.canvas()
        ax.set(ylabel=label, ylim=(0, top))
        if second:
            ax.secondary_xaxis("top").set_xlabel(second)
        return fig

    places = {}
    made = [
        drawing(*given).svg(places=places) for given in (("a",), ("a",), ("b\nb",), ("a", 1e6), ("a", 1, "c"), ("a",))
    ]
    assert len(places) == 4
    assert made[0] == made[1] == made[5] == drawing("a").svg()
    assert made[2:5] == [drawing("b\nb").svg(), drawing("a", 1e6).svg(), drawing("a", 1, "c").svg()]
    assert len(set(made)) == 4


def test_an_svg_is_laid_out_as_matplotlib_would():
    def drawing():
        return softmax.temperature_curves([1, 2], [[0.5, 0.5], [0.6, 0.4]])

    theirs = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "labkit"}):
        drawing().savefig(theirs, format="svg", transparent=True, metadata={"Date": None})
    assert drawing().svg() == canvas.page_svg(theirs.getvalue())
