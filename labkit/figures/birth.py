"""The pictures of the page "Watch a head being born"."""

import numpy as np
from matplotlib.patches import Rectangle

from labkit.figures.attention import draw_cells
from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, canvas, opacity
from labkit.trained import followers

TICKS = (0, 50, 100, 200, 500, 1000, 2000)


def progress(log, ignorant):
    """Draw what was measured while a model was trained.

    Parameters
    ----------
    log : list of dict
        As `labkit.trained.log` returns it.
    ignorant : float
        The loss of a uniform guess, in nats a token.

    Returns
    -------
    Drawing
        The loss on sequences never trained on above, the largest induction score of a head below, over the steps.
    """
    fig, (above, below) = canvas(height=3.2, nrows=2, sharex=True)
    steps = [entry["step"] for entry in log]
    above.plot(steps, [entry["held_out"] for entry in log], color=BLUE)
    above.axhline(ignorant, color=GREY, linewidth=0.8, linestyle=":")
    above.text(2000, ignorant - 0.1, "a uniform guess", ha="right", va="top", fontsize=FONT_SIZE)
    above.set(ylabel="held-out loss\n(nats a token)", ylim=(0, 1.08 * ignorant))
    below.plot(steps, [entry["induction"] for entry in log], color=ORANGE)
    below.set(ylabel="largest\ninduction score", ylim=(0, 1))
    _steps_axis(below)
    below.set(xlabel="step of training")
    return fig


def shared_work(weights, labels):
    """Draw, for each query, how much weight each of two heads gives to the token before it.

    Parameters
    ----------
    weights : array [2, T − 1]
        The weight on the previous token, a row for each head, from the second query on.
    labels : sequence of str
        What those queries are called.

    Returns
    -------
    Drawing
        Two bars a query, one for each head.
    """
    fig, ax = canvas(height=1.9)
    at = np.arange(len(labels))
    for head, colour in enumerate((BLUE, GREEN)):
        ax.bar(at + 0.4 * head - 0.2, weights[head], width=0.4, color=colour, label=f"head {head}")
    ax.set_xticks(at, labels)
    ax.set(ylim=(0, 1), xlabel="query (token)", ylabel="weight on\nthe previous token")
    ax.legend(frameon=False, fontsize=FONT_SIZE, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
    return fig


def birth(weights, token_ids, log, kept, step):
    """Draw one head's attention map, under the loss of the whole model and where in its training this is.

    Parameters
    ----------
    weights : array [T, T]
        The head's attention weights.
    token_ids : integer array [T]
        What the model read. The cells where an induction head would look are framed.
    log : list of dict
        As `labkit.trained.log` returns it.
    kept : sequence of int
        The steps at which the map can be seen.
    step : int
        Which of them it is.

    Returns
    -------
    Drawing
        The cells have the gids cell-0, cell-1, … row by row, and their opacity is the weight; the pointers to the
        steps are now-0, now-1, ….
    """
    fig, (above, ax) = canvas(height=5.6, nrows=2, height_ratios=(1, 3.6))
    above.plot([entry["step"] for entry in log], [entry["held_out"] for entry in log], color=GREY)
    loss = {entry["step"]: entry["held_out"] for entry in log}
    for at, position in enumerate(kept):
        style = {"fontsize": 12, "alpha": opacity(position == step), "gid": f"now-{at}"}
        above.text(position, loss[position], "▼", ha="center", va="bottom", **style)
    above.set(ylabel="held-out loss", ylim=(0, 5.8), xlabel="step of training")
    _steps_axis(above)
    T = len(token_ids)
    draw_cells(ax, weights)
    for i, j in np.argwhere(followers(token_ids)):
        ax.add_patch(Rectangle((j, i), 1, 1, fill=False, edgecolor=ORANGE, linewidth=1.2, clip_on=False))
    ax.set_xticks(np.arange(T) + 0.5, token_ids)
    ax.set_yticks(np.arange(T) + 0.5, token_ids)
    ax.set(xlim=(0, T), ylim=(T, 0), xlabel="key (token that is looked at)", ylabel="query (token that looks)")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_aspect("equal")
    return fig


def _steps_axis(ax):
    """Show the first hundred steps evenly, and the rest by their logarithm: most happens early."""
    ax.set_xscale("symlog", linthresh=100, linscale=1)
    ax.set_xticks(TICKS, [str(tick) for tick in TICKS])
    ax.minorticks_off()
    ax.set_xlim(-4, 2100)
