"""The pictures of chapter 5."""

import numpy as np
from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas

COLOURS = (BLUE, ORANGE, GREEN, RED)
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def flow(T, d_model, n_heads):
    """Draw multi-head attention as the matrices that it computes, from X to the output.

    Parameters
    ----------
    T : int
        Number of positions.
    d_model : int
        Width of the stream, shared by the heads.
    n_heads : int
        Number of heads, a divisor of d_model; at most 4, for there are 4 colours.

    Returns
    -------
    Drawing
        One rectangle a matrix, as many units wide as it has columns and as tall as it has rows. What belongs to head h
        has its colour and a gid: Q-h, K-h, V-h, map-h, out-h and concat-h; what belongs to none is X or output.
    """
    d_head = d_model // n_heads
    fig, ax = canvas(height=2.6)
    top = 3 * (T + 2)  # the three projections set the height
    middle = (top - T - 2) / 2
    columns = np.cumsum([0, d_model + 4, d_model + 4, T + 2, d_head + 4, d_model + 4])
    _matrix(ax, "X", columns[0], middle, d_model, T, GREY)
    for row, name in enumerate("QKV"):
        for h in range(n_heads):
            at = columns[1] + h * d_head
            _matrix(ax, f"{name}-{h}", at, row * (T + 2), d_head, T, COLOURS[h])
        _write(ax, columns[1] - 1, row * (T + 2) + T / 2, name, ha="right")
    for h in range(n_heads):
        at = middle + (h - (n_heads - 1) / 2) * (T + 2.5)
        _matrix(ax, f"map-{h}", columns[2], at, T, T, COLOURS[h])
        _matrix(ax, f"out-{h}", columns[3], at, d_head, T, COLOURS[h])
        _write(ax, columns[2] - 0.7, at + T / 2, str(h), ha="right")
        _matrix(ax, f"concat-{h}", columns[4] + h * d_head, middle, d_head, T, COLOURS[h])
    _matrix(ax, "output", columns[5], middle, d_model, T, GREY)
    widths = (d_model, d_model, T, d_head, d_model)
    for left, width, right, label in zip(columns, widths, columns[1:], (2, 1.6, 0, 0, 0), strict=False):
        _arrow(ax, left + width + 0.5, right - 0.5 - label, middle + T / 2)
    for name, at, width in (
        ("X", columns[0], d_model),
        ("project,\nsplit", columns[1], d_model),
        ("weights", columns[2], T),
        ("heads", columns[3], d_head),
        ("concat", columns[4], d_model),
        ("times W_O", columns[5], d_model),
    ):
        _write(ax, at + width / 2, top + 0.6, name, va="top")
    ax.set(xlim=(-0.5, columns[5] + d_model + 0.5), ylim=(top + 5, -2.5))
    ax.set_aspect("equal")
    ax.axis("off")
    return fig


def favourites(widths, counts, n_keys):
    """Draw how many of the keys are some query's favourite, over the width of a head.

    Parameters
    ----------
    widths : sequence of int
        The widths d_head.
    counts : sequence of int
        At each, the number of keys that get the largest weight of at least one query.
    n_keys : int
        How many keys there are.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.3)
    ax.axhline(n_keys, color=GREY, linewidth=0.8, linestyle=":")
    ax.text(widths[0], n_keys - 1, f"all {n_keys} keys", va="top", fontsize=FONT_SIZE)
    ax.plot(widths, counts, "o-", color=BLUE)
    ax.set(xscale="log", ylim=(0, n_keys * 1.06), xlabel="width of the head, d_head", ylabel="keys ever preferred")
    ax.set_xticks(widths, [str(width) for width in widths])
    ax.minorticks_off()
    return fig


def costs(names, amounts, largest):
    """Draw how often each kind of operation is done, on a logarithmic axis.

    Parameters
    ----------
    names : sequence of str
        The kinds.
    amounts : sequence of float
        How many of each.
    largest : float
        Where the axis ends, the same for pictures that are to be compared.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=1.9)
    at = np.arange(len(names))
    ax.barh(at, amounts, color=[BLUE, ORANGE, RED][: len(names)], height=0.6)
    ax.set_yticks(at, names)
    ax.set(xscale="log", xlim=(1e4, largest), ylim=(len(names) - 0.5, -0.5), xlabel="operations in one layer")
    powers = [power for power in range(4, 20, 2) if 10**power <= largest]
    ax.set_xticks([10.0**power for power in powers], [f"10{str(power).translate(RAISED)}" for power in powers])
    ax.minorticks_off()
    return fig


def ablation(names, losses, whole, ignorant):
    """Draw the loss of a model with one head silenced at a time.

    Parameters
    ----------
    names : sequence of str
        What was silenced.
    losses : sequence of float
        The loss without it, in nats.
    whole : float
        The loss with nothing silenced.
    ignorant : float
        The loss of a guess that gives every token the same probability.

    Returns
    -------
    Drawing
        A bar for each, the whole model's first, and a dotted line at the guess.
    """
    fig, ax = canvas(height=2.2)
    at = np.arange(len(names) + 1)
    ax.barh(at, [whole, *losses], color=[GREY, *[BLUE] * len(names)], height=0.6)
    for y, loss in zip(at, [whole, *losses], strict=True):
        ax.text(loss + 0.06, y, f"{loss:.2f}", va="center", fontsize=FONT_SIZE)
    ax.axvline(ignorant, color=RED, linewidth=1, linestyle=":")
    ax.text(ignorant + 0.06, -0.75, "knows nothing", va="center", fontsize=FONT_SIZE)
    ax.set_yticks(at, ["nothing", *names])
    ax.set(ylim=(len(names) + 0.5, -1.1), xlim=(0, 1.12 * max(whole, ignorant, *losses)))
    ax.set(xlabel="loss, in nats a token", ylabel="silenced")
    return fig


def _matrix(ax, gid, x, y, width, height, colour):
    style = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.8, "alpha": 0.85}
    ax.add_patch(Rectangle((x, y), width, height, gid=gid, **style))


def _arrow(ax, start, end, y):
    ax.annotate("", (end, y), (start, y), arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 0, "shrinkB": 0})


def _write(ax, x, y, text, ha="center", va="center"):
    ax.text(x, y, text, ha=ha, va=va, fontsize=FONT_SIZE)
