"""The pictures of chapter 8."""

import numpy as np

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas
from labkit.norm import layer_norm, rms_norm

SCALES = (0.001, 0.01, 0.1, 1, 10, 100, 1000)
SHIFTS = (-8, -4, -2, -1, 0, 1, 2, 4, 8)


def stages(x, weight, bias, eps=1e-5):
    """Draw what each norm does to one vector, step by step.

    Parameters
    ----------
    x : array [d_model]
        The vector.
    weight, bias : array [d_model]
        γ, used by both norms, and β, used by LayerNorm.
    eps : float
        Added inside the root.

    Returns
    -------
    Drawing
        Two rows of four bar charts. LayerNorm: x, x − μ, that divided by √(σ² + ε), that · γ + β. RMSNorm: x, a panel
        that says that nothing is subtracted, x divided by √(mean(x²) + ε), that · γ.
    """
    x, ones = np.asarray(x), np.ones(len(x))
    rows = [
        [x, x - x.mean(), layer_norm(x, ones, eps=eps), layer_norm(x, weight, bias, eps)],
        [x, None, rms_norm(x, ones, eps), rms_norm(x, weight, eps)],
    ]
    titles = [["x", "x − μ", "÷ √(σ² + ε)", "· γ + β"], ["x", "", "÷ √(mean(x²) + ε)", "· γ"]]
    limit = 1.1 * max(np.abs(values).max() for row in rows for values in row if values is not None)
    fig, axes = canvas(nrows=2, ncols=4, height=3.1, sharey=True)
    for axes_row, row, names, colour, norm in zip(
        axes, rows, titles, (BLUE, ORANGE), ("LayerNorm", "RMSNorm"), strict=True
    ):
        for ax, values, title in zip(axes_row, row, names, strict=True):
            ax.set_title(title, fontsize=FONT_SIZE)
            ax.set(ylim=(-limit, limit), xticks=range(len(x)))
            if values is None:
                ax.set_axis_off()
                ax.text(
                    0.5,
                    0.5,
                    "no mean\nsubtracted",
                    ha="center",
                    va="center",
                    transform=ax.transAxes,
                    fontsize=FONT_SIZE,
                )
                continue
            ax.bar(np.arange(len(x)), values, color=colour)
            ax.axhline(0, color=GREY, linewidth=0.8)
            ax.set_xlabel("entry", fontsize=FONT_SIZE)
        axes_row[0].set_ylabel(f"{norm}: value", fontsize=FONT_SIZE)
    return fig


def moved(x, scale, shift):
    """Return scale · (x + shift): one vector made larger or smaller, and pushed aside.

    Parameters
    ----------
    x : array [d_model]
    scale, shift : float

    Returns
    -------
    array [d_model]

    Examples
    --------
    >>> moved(np.array([1.0, 2.0]), scale=10, shift=-1)
    array([ 0., 10.])
    """
    return scale * (np.asarray(x) + shift)


def shift_and_scale(x, scale, shift):
    """Draw a vector scaled and shifted, and what the two norms make of it.

    Parameters
    ----------
    x : array [d_model]
        The vector before.
    scale, shift : float
        What becomes of it is scale · (x + shift).

    Returns
    -------
    Drawing
        Left: the moved vector. Middle and right: LayerNorm and RMSNorm of it (weight 1, ε = 1e-5) as bars, and of the
        vector before as rings.
    """
    given, ones = moved(x, scale, shift), np.ones(len(x))
    places = {"left": 0.15, "right": 0.99, "bottom": 0.2, "top": 0.89, "wspace": 0.35}
    fig, axes = canvas(ncols=3, height=2.4, layout=None, gridspec_kw=places)  # they stay, however long the numbers get
    axes[0].bar(np.arange(len(x)), given, color=GREY)
    axes[0].set_title("given", fontsize=FONT_SIZE, y=1)
    axes[0].set_ylabel("value", fontsize=FONT_SIZE)
    for ax, norm, name, colour in zip(
        axes[1:], (layer_norm, rms_norm), ("LayerNorm", "RMSNorm"), (BLUE, ORANGE), strict=True
    ):
        ax.bar(np.arange(len(x)), norm(given, ones), color=colour)
        ax.plot(np.arange(len(x)), norm(np.asarray(x), ones), "o", color=RED, fillstyle="none", markersize=5)
        ax.set_title(name, fontsize=FONT_SIZE, y=1)
        ax.set_ylim(-2.4, 2.4)
    for ax in axes:
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set(xticks=(0, len(x) - 1), xlabel="entry")
        ax.locator_params(axis="y", nbins=3)
    return fig


def depth(layers, streams, gradients):
    """Draw what happens to the stream and to the gradient on the way through a stack of blocks.

    Parameters
    ----------
    layers : sequence of int
        Behind how many blocks each number was taken.
    streams : dict of str to sequence
        For each kind of stack, the root mean square of the stream there.
    gradients : dict of str to sequence
        For each kind of stack, the length of the loss's gradient there, as a multiple of the last.

    Returns
    -------
    Drawing
        Two panels with logarithmic axes and one legend. Kinds that begin with "no norm" are red, with "pre" blue, with
        "post" orange; those that end in "SwiGLU" are dashed.
    """
    fig, (left, right) = canvas(ncols=2, height=3.3)
    for ax, lines in ((left, streams), (right, gradients)):
        for name, values in lines.items():
            ax.plot(layers, values, color=_colour(name), linestyle="--" if name.endswith("SwiGLU") else "-", label=name)
        ax.set(yscale="log", xlabel="blocks passed", xlim=(layers[0], layers[-1]))
        ax.set_xticks(layers[:: max(1, len(layers) // 4)])
    left.set_title("root mean square of the stream", fontsize=FONT_SIZE)
    right.set_title("length of the gradient / the last", fontsize=FONT_SIZE)
    left.set_ylabel("RMS (log scale)", fontsize=FONT_SIZE)
    right.set_ylabel("ratio (log scale)", fontsize=FONT_SIZE)
    named = {line.get_label(): line for ax in (left, right) for line in ax.lines}
    fig.legend(named.values(), named, loc="outside lower center", ncols=3, fontsize=FONT_SIZE, frameon=False)
    return fig


def agreement(ratios, cosines):
    """Draw how far the directions of the two norms' results agree.

    Parameters
    ----------
    ratios : array [n]
        |μ| / σ of the vector.
    cosines : array [n]
        Cosine of the angle between LayerNorm's and RMSNorm's result.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.1)
    ax.plot(ratios, cosines, color=GREEN)
    ax.set(xlabel="mean of the vector over its standard deviation, |μ| / σ", ylabel="cosine", ylim=(0, 1.03))
    ax.set_xlim(ratios[0], ratios[-1])
    return fig


def _colour(name):
    return {"no": RED, "pr": BLUE, "po": ORANGE}[name[:2]]
