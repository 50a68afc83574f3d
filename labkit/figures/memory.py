"""The picture of the page on memory."""

import numpy as np

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas

UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def written(size):
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> written(16_060_000_000), written(36_864)
    ('16.1 GB', '36.9 kB')
    """
    scale, unit = next(each for each in UNITS if size >= each[0] or each[0] == 1)
    return f"{size / scale:.3g} {unit}"


def sizes(models):
    """Draw how many bytes each part takes, a panel for each model.

    Parameters
    ----------
    models : dict of str to dict of str to float
        For each model, its parts and their bytes. All models have the same parts.

    Returns
    -------
    Drawing
        Horizontal bars on a logarithmic axis, the first part on top, each with its size written beside it.
    """
    fig, axes = canvas(height=2.6, nrows=len(models), sharex=True)
    for ax, (name, parts) in zip(np.atleast_1d(axes), models.items(), strict=True):
        colours = (BLUE, ORANGE, GREEN, RED, GREY)[: len(parts)]
        ax.barh(range(len(parts)), list(parts.values()), color=colours, alpha=0.75)
        for at, size in enumerate(parts.values()):
            ax.text(size * 1.2, at, written(size), va="center", fontsize=FONT_SIZE)
        ax.set_yticks(range(len(parts)), list(parts))
        ax.set_title(name, fontsize=FONT_SIZE, loc="left")
        ax.set(xscale="log", xlim=(1e5, 8e11))
        ax.invert_yaxis()
        ax.minorticks_off()
    np.atleast_1d(axes)[-1].set_xticks([1e6, 1e9, 1e11], ["1 MB", "1 GB", "100 GB"])
    return fig
