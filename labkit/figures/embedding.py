"""The pictures of chapter 1."""

import numpy as np
from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas, opacity

COLOURS = (BLUE, ORANGE, GREEN, RED)
CHANCE = 1 / 8  # standard deviation of the cosine of random directions at a width of 64


def gather(token_ids, vocab_size, d_model):
    """Draw the lookup: the table on the left, the rows that it gives on the right.

    Parameters
    ----------
    token_ids : sequence of int
        At most 4, for there are 4 colours.
    vocab_size : int
        Number of rows of the table.
    d_model : int
        Number of its columns.

    Returns
    -------
    Drawing
        One rectangle an entry: row i, column c of the table has the gid table-i-c, row t of X has x-t-c. The table's
        rows that are taken have the colour of the rows of X that they become, the others are grey.
    """
    fig, ax = canvas(height=2.9)
    colours = dict(zip(token_ids, COLOURS, strict=False))
    left, top = d_model + 5, (vocab_size - len(token_ids)) / 2
    for i in range(vocab_size):
        _row(ax, f"table-{i}", 0, i, d_model, colours.get(i, GREY), 0.75 if i in colours else 0.2)
        ax.text(-0.4, i + 0.5, str(i), ha="right", va="center", fontsize=FONT_SIZE)
    for t, token in enumerate(token_ids):
        y = top + t
        _row(ax, f"x-{t}", left, y, d_model, colours[token], 0.75)
        line = {"arrowstyle": "->", "color": colours[token], "linewidth": 1.2}
        ax.annotate("", (left - 0.2, y + 0.5), (d_model + 0.2, token + 0.5), arrowprops=line)
        ax.text(left + d_model + 0.4, y + 0.5, f"id {token}", va="center", fontsize=FONT_SIZE)
    ax.text(d_model / 2, -0.5, f"E [{vocab_size}, {d_model}]", ha="center", fontsize=FONT_SIZE)
    ax.text(left + d_model / 2, top - 0.5, f"X [{len(token_ids)}, {d_model}]", ha="center", fontsize=FONT_SIZE)
    ax.set(xlim=(-1.5, left + d_model + 3), ylim=(vocab_size + 0.1, -1.4))
    ax.axis("off")
    return fig


def similarity(names, cosines):
    """Draw the cosine of every pair of tokens as a map.

    Parameters
    ----------
    names : sequence of str
        What the tokens are called, on both axes.
    cosines : array [n, n]
        The cosine of each pair, between −1 and 1.

    Returns
    -------
    Drawing
        Cells with the gids cell-0, cell-1, … row by row: blue where the cosine is positive, orange where it is
        negative, as opaque as it is large.
    """
    n = len(names)
    fig, ax = canvas(height=4.6)
    for at, cosine in enumerate(np.ravel(cosines)):
        style = {"color": BLUE if cosine > 0 else ORANGE, "alpha": opacity(min(abs(cosine), 1)), "linewidth": 0}
        ax.add_patch(Rectangle((at % n, at // n), 1, 1, gid=f"cell-{at}", **style))
    ax.set_xticks(np.arange(n) + 0.5, names, rotation=90)
    ax.set_yticks(np.arange(n) + 0.5, names)
    ax.set(xlim=(0, n), ylim=(n, 0), xlabel="token", ylabel="token")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_aspect("equal")
    return fig


def neighbours(name, found):
    """Draw the tokens nearest to one token, and their cosines.

    Parameters
    ----------
    name : str
        What the token is called.
    found : sequence of (str, float)
        Its neighbours' names and cosines, the nearest first.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.6)
    at = np.arange(len(found))
    ax.barh(at, [cosine for _, cosine in found], color=BLUE, height=0.7)
    ax.axvline(CHANCE, color=GREY, linewidth=1, linestyle=":")
    ax.set_yticks(at, [other for other, _ in found])
    ax.set(xlim=(0, 1), ylim=(len(found) - 0.5, -0.5), xlabel=f"cosine with the row of {name}", ylabel="token")
    return fig


def shares(names, parts):
    """Draw which share of each model's parameters its token tables hold.

    Parameters
    ----------
    names : sequence of str
        The models.
    parts : sequence of float
        Their shares, between 0 and 1.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.3)
    at = np.arange(len(names))
    ax.barh(at, 100 * np.asarray(parts), color=BLUE, height=0.7)
    for y, part in zip(at, parts, strict=True):
        ax.text(100 * part + 1, y, f"{part:.1%}", va="center", fontsize=FONT_SIZE)
    ax.set_yticks(at, names)
    ax.set(xlim=(0, 100), ylim=(len(names) - 0.5, -0.5), xlabel="parameters in token tables, %", ylabel="model")
    return fig


def _row(ax, gid, left, top, width, colour, alpha):
    """Draw one row of a matrix, a box for each column."""
    for column in range(width):
        style = {"color": colour, "alpha": alpha, "linewidth": 0, "gid": f"{gid}-{column}"}
        ax.add_patch(Rectangle((left + column, top), 0.94, 0.86, **style))
