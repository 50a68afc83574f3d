"""The pictures of chapter 4."""

import numpy as np
from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, GREY, ORANGE, RED, canvas, opacity


def mask_and_weights(additive, weights):
    """Draw a mask that is added to the scores, and beside it the weights that softmax makes under it.

    Parameters
    ----------
    additive : array [T, S]
        0 or −∞.
    weights : array [T, S]
        Attention weights under that mask.

    Returns
    -------
    Drawing
        Two tables, a row for each query and a column for each key, with their numbers written in.
    """
    fig, (left, right) = canvas(ncols=2, height=2.9)
    shut = np.asarray(additive) == -np.inf
    _cells(left, np.where(shut, 0.25, 0), GREY)
    _cells(right, weights, BLUE)
    for ax, title, texts in (
        (left, "mask, added to the scores", np.where(shut, "−∞", "0")),
        (right, "weights after softmax", [[f"{weight:.2f}" for weight in row] for row in weights]),
    ):
        for (i, j), text in np.ndenumerate(np.asarray(texts)):
            ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=FONT_SIZE)
        ax.set_title(title, fontsize=FONT_SIZE)
        _axes(ax, np.shape(weights))
    return fig


def changed_outputs(weights, moved, changed, labels, limit):
    """Draw an attention map and, beside each query's row, how far its output moves when one token is changed.

    Parameters
    ----------
    weights : array [T, T]
        Attention weights before the change.
    moved : array [T]
        How far each output moved.
    changed : int
        The position whose token was changed.
    labels : sequence of str
        What each position is called.
    limit : float
        Where the axis of the moves ends.

    Returns
    -------
    Drawing
        Left: the map, the changed key's column framed. Right: a bar for each query, red where it comes before the
        change.
    """
    T = len(moved)
    fig, (left, right) = canvas(ncols=2, height=2.9, width_ratios=[1.2, 1])
    _cells(left, weights, BLUE)
    left.add_patch(Rectangle((changed, 0), 1, T, fill=False, edgecolor=ORANGE, linewidth=2, clip_on=False))
    _axes(left, (T, T))
    left.set_yticks(np.arange(T) + 0.5, labels)
    left.set_title("attention weights", fontsize=FONT_SIZE, y=1)
    colours = [RED if query < changed else BLUE for query in range(T)]
    right.barh(np.arange(T) + 0.5, moved, height=0.6, color=colours)
    right.axhline(changed, color=ORANGE, linewidth=1)
    right.set(xlim=(0, limit), ylim=(T, 0), yticks=[], xlabel="how far the output moved")
    right.set_title("red: before the changed token", fontsize=FONT_SIZE, y=1)
    return fig


def grids(titles, tables, colour=BLUE, down="query", across="key"):
    """Draw Boolean tables side by side, such as masks.

    Parameters
    ----------
    titles : sequence of str
        One for each table.
    tables : sequence of Boolean arrays
        Filled where True.
    colour : str
        Of the filled cells.
    down, across : str
        What the rows and the columns are.

    Returns
    -------
    Drawing
    """
    fig, axes = canvas(ncols=len(titles), height=round(0.75 + 4.7 / len(titles), 1))
    for ax, title, table in zip(axes, titles, tables, strict=True):
        _cells(ax, np.asarray(table, dtype=float), colour)
        _axes(ax, np.shape(table))
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(xlabel=across, ylabel=down if ax is axes[0] else "")
    return fig


def training_curves(logs, ignorant):
    """Draw the held-out loss of several models over training.

    Parameters
    ----------
    logs : dict of str to list of dict
        For each model what `labkit.trained.log` returns.
    ignorant : float
        The loss of a model that knows nothing.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.3)
    for (name, log), colour in zip(logs.items(), (BLUE, RED), strict=True):
        steps, losses = [row["step"] for row in log], [row["held_out"] for row in log]
        ax.plot(steps, losses, "o-", color=colour, markersize=3, label=name)
        ax.annotate(name, (steps[-1], losses[-1]), (0, 6), textcoords="offset points", ha="right", fontsize=FONT_SIZE)
    ax.axhline(ignorant, color=GREY, linewidth=0.8, linestyle=":")
    ax.text(steps[-1], ignorant, "knows nothing", ha="right", va="bottom", fontsize=FONT_SIZE)
    ax.set(xlabel="training step", ylabel="held-out loss (nats a token)", ylim=(0, ignorant * 1.12), xlim=(0, None))
    return fig


def token_losses(tokens, series):
    """Draw the loss at each token of a text, for several models.

    Parameters
    ----------
    tokens : sequence of str
        The tokens that are predicted.
    series : dict of str to array [len(tokens)]
        Losses in nats, by name.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.9)
    at = np.arange(len(tokens))
    for (name, losses), colour, style in zip(series.items(), (BLUE, RED, ORANGE), ("o-", "s-", "^-"), strict=True):
        ax.plot(at, losses, style, color=colour, markersize=3.5, linewidth=1, label=name)
    ax.set_xticks(at, [token.replace(" ", "·") for token in tokens], rotation=90)
    ax.set(xlabel="token to predict (· is a space)", ylabel="loss (nats)", ylim=(-0.4, None))
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=len(series))
    return fig


def _cells(ax, strengths, colour):
    """Fill the cells of a table, each as strongly as it says; in panel p, row i, column j has the gid cell-p-i-j."""
    panel = ax.figure.axes.index(ax)
    for (i, j), strength in np.ndenumerate(np.asarray(strengths)):
        if strength > 0:
            alpha = opacity(strength)
            style = {"color": colour, "linewidth": 0, "alpha": alpha, "gid": f"cell-{panel}-{i}-{j}"}
            ax.add_artist(
                Rectangle((j, i), 1, 1, **style)
            )  # add_patch would measure each for the limits, which are set


def _axes(ax, shape):
    """Give a table of queries and keys its axes: queries down, keys across, both from 0."""
    T, S = shape
    ax.set_xticks(np.arange(S) + 0.5, range(S))
    ax.set_yticks(np.arange(T) + 0.5, range(T))
    ax.hlines(range(T + 1), 0, S, color=GREY, linewidth=0.4)
    ax.vlines(range(S + 1), 0, T, color=GREY, linewidth=0.4)
    ax.set(xlim=(0, S), ylim=(T, 0), xlabel="key", ylabel="query", aspect="equal")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
