"""What every picture of the book shares: its size, its colours, and how it becomes PNG or SVG.

A `Drawing` is a matplotlib figure that no global registry knows, so nothing has to be closed. It shows itself in a
notebook as a PNG, and as an SVG while the book is built (when LABKIT_STATIC is set). In its SVG black is the colour
of the text around it, so that it follows the page's light or dark theme.
"""

import io
import os
import re
from itertools import chain

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image

# Mid-tones: each has a contrast of at least 3 : 1 against white and against the dark theme's background.
BLUE, ORANGE, GREEN, RED, GREY = "#2f7fd6", "#d36a22", "#2b9660", "#d8504d", "#808080"

# A reader's own settings must not move axes that have their places.
NO_LAYOUT = {"figure.autolayout": False, "figure.constrained_layout.use": False}

FONT_SIZE = 8.5
WIDTH = 5.2  # inches, which is 374 points: about the width of a phone, so that text stays legible there


class Drawing(Figure):
    """A figure that shows itself as PNG in a notebook and as SVG in the published book."""

    def png(self):
        """Return the picture as PNG bytes, the same on every run."""
        drawn, small = io.BytesIO(), io.BytesIO()
        self.savefig(drawn, format="png", dpi=120, facecolor="white")
        # 64 colours are enough for these pictures and keep the notebooks small.
        Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(small, "png", optimize=True)
        return small.getvalue()

    def svg(self, prefix="", places=None):
        """Return the picture as an SVG element to be placed in a page.

        Parameters
        ----------
        prefix : str
            Keeps the picture's ids apart from those of others.
        places : dict, optional
            Where the axes of earlier pictures came to stand, by what is written around them. Finding that takes longer
            than drawing, so pictures that share such a dict, which this one adds to, do it once.
        """
        buffer = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "labkit", **NO_LAYOUT}):
            self._arrange({} if places is None else places)
            self.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        return page_svg(buffer.getvalue(), prefix)

    def _arrange(self, places):
        """Put the axes where the layout engine would put them for an SVG, and do without it from here on."""
        engine, written = self.get_layout_engine(), self._written()
        if engine is not None and written not in places:
            self.set_dpi(72)
            FigureCanvasSVG(self)  # the canvas that measures the texts
            engine.execute(self)
            places[written] = [ax.get_position(original=True) for ax in self.axes]
        self.set_layout_engine(None)
        for ax, place in zip(self.axes, places.get(written, ()), strict=False):
            ax.set_position(place)

    def _written(self):
        """Return what the places of the axes depend on: the size of the picture, and what is written along the axes."""
        written = [
            *self.get_size_inches(),
            *(ax.get_title(at) for ax in self.axes for at in ("left", "center", "right")),
        ]
        for ax in chain.from_iterable((ax, *ax.child_axes) for ax in self.axes):  # a second axis is a child
            for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
                ticks = (tick.get_text() for tick in axis.get_ticklabels())
                written.append((axis.get_label_text(), *ticks, *axis.get_view_interval()))
        return tuple(written)

    def _repr_mimebundle_(self, include=None, exclude=None):
        picture = {"image/svg+xml": self.svg()} if static() else {"image/png": self.png()}
        return {**picture, "text/plain": repr(self)}


def static():
    """Tell whether the book is being built, so that what is shown must work without a kernel."""
    return bool(os.environ.get("LABKIT_STATIC"))


def canvas(height=2.6, width=WIDTH, layout="constrained", mosaic=None, **subplots):
    """Return a new drawing and its axes, as `matplotlib.pyplot.subplots` would.

    Parameters
    ----------
    height, width : float
        Size in inches.
    layout : "constrained" or None
        Whether the axes leave room for what is written around them, however long. Otherwise they keep their places,
        which `gridspec_kw` can give.
    mosaic : list of lists of str, optional
        The names of the axes as they lie in rows and columns, "." for an empty place, for `Figure.subplot_mosaic`.
    **subplots
        Passed on to it, or without a mosaic to `Figure.subplots`.

    Returns
    -------
    Drawing, Axes or array of Axes or dict of Axes

    Examples
    --------
    >>> fig, (left, right) = canvas(ncols=2)
    >>> len(fig.axes)
    2
    """
    fig = Drawing(figsize=(width, height), layout=layout)
    axes = fig.subplot_mosaic(mosaic, **subplots) if mosaic else fig.subplots(**subplots)
    for ax in fig.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=FONT_SIZE)
        for text in (ax.xaxis.label, ax.yaxis.label):
            text.set_fontsize(FONT_SIZE)
    return fig, axes


def opacity(value):
    """Return an opacity for an artist that an explorer may show later.

    Of what is fully invisible, matplotlib leaves out the colours, and then nothing could make it appear.
    """
    return max(float(value), 1e-4)


def page_svg(text, prefix=""):
    """Make matplotlib's SVG fit to stand in a page beside others.

    It loses its XML header, its metadata and its style sheet (which would reach the whole page), takes its colour for
    text from the page, its numbers are rounded to thousandths, and its ids get a prefix.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\s*<style type="text/css">\*\{(.*?)\}</style>', "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" fill="currentColor">', text, count=1)
    text = re.sub(r"#000000\b|#262626\b", "currentColor", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", "'DejaVu Sans', Verdana, sans-serif", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(
        r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{4,}", lambda number: short(number.group()), tag.group()), text
    )
    for pattern in (r'(\bid=")', r'(xlink:href="#)', r"(url\(#)"):
        text = re.sub(pattern, rf"\g<1>{prefix}", text)
    return re.sub(r"\n\s*", "\n", text).strip()


def short(number):
    """Write a number, given as text, to thousandths.

    Examples
    --------
    >>> short("0.123456"), short("1.0000")
    ('0.123', '1')
    """
    return f"{float(number):.3f}".rstrip("0").rstrip(".")
