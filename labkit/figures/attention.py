"""The pictures of chapter 2."""

import numpy as np
from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, ORANGE, canvas, opacity


def attention_map(weights, query, labels):
    """Draw attention weights as a map: a row for each query, a column for each key, one row singled out.

    Parameters
    ----------
    weights : array [T, S]
        Attention weights.
    query : int
        The row to frame, and whose weights are written out under the map.
    labels : sequence of str
        What each position is called (T = S), on both axes.

    Returns
    -------
    Drawing
        The cells have the gids cell-0, cell-1, … row by row, and their opacity is the weight; the frames of the rows
        are row-0, …; the written weights weight-0, ….
    """
    T, S = np.shape(weights)
    fig, ax = canvas(height=4.3)
    for at, weight in enumerate(np.ravel(weights)):
        i, j = divmod(at, S)
        ax.add_patch(Rectangle((j, i), 1, 1, color=BLUE, linewidth=0, alpha=opacity(weight), gid=f"cell-{at}"))
    for i in range(T):
        style = {"fill": False, "edgecolor": ORANGE, "linewidth": 2, "alpha": opacity(i == query), "clip_on": False}
        ax.add_patch(Rectangle((0, i), S, 1, **style, gid=f"row-{i}"))
    for j, text in enumerate(written(weights, query)):
        ax.text(j + 0.5, T + 0.45, text, ha="center", va="center", fontsize=FONT_SIZE, gid=f"weight-{j}")
    ax.text(-0.1, T + 0.45, "weights", ha="right", va="center", fontsize=FONT_SIZE)
    ax.set_xticks(np.arange(S) + 0.5, labels)
    ax.set_yticks(np.arange(T) + 0.5, labels)
    ax.set(xlim=(0, S), ylim=(T + 0.9, 0), xlabel="key (what is looked at)", ylabel="query (who looks)")
    ax.xaxis.set(label_position="top", ticks_position="top")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_aspect("equal")
    return fig


def written(weights, query):
    """Return one query's weights as they are written under the map: two decimals each."""
    return [f"{weight:.2f}" for weight in weights[query]]
