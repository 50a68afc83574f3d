"""The pictures of chapter 3."""

from functools import lru_cache

import numpy as np

from labkit.figures.canvas import BLUE, FONT_SIZE, GREY, ORANGE, RED, canvas
from labkit.softmax import saturation as measure
from labkit.softmax import scores_of_width, softmax

WIDTHS = tuple(2**i for i in range(11))
HALVES = (0, 0.5, 1)


def saturation(d_k, scaled):
    """Draw one row of weights at a width d_k, and beside it what all widths do to entropy and gradient.

    Parameters
    ----------
    d_k : int
        The width of queries and keys.
    scaled : bool
        Whether scores are divided by √d_k.

    Returns
    -------
    Drawing
        Left: the weights that one random query gives to 8 keys. Right: mean entropy and mean largest gradient of 256
        such rows over d_k, each as a share of the largest value it can take.
    """
    weights = softmax(scores_of_width(d_k, scaled)[0])
    fig, (left, right) = canvas(ncols=2, height=2.5)
    left.bar(np.arange(8), weights, color=BLUE)
    left.set(ylim=(0, 1), xlabel="key", ylabel="weight", xticks=range(8), yticks=HALVES)
    left.set_title("one query's weights", fontsize=FONT_SIZE)
    at = WIDTHS.index(d_k)
    for (name, share), colour in zip(_shares(scaled).items(), (ORANGE, RED), strict=True):
        right.plot(WIDTHS, share, color=colour, label=name)
        right.plot(d_k, share[at], "o", color=colour)
    right.axvline(d_k, color=GREY, linewidth=0.8, linestyle=":")
    right.set(ylim=(0, 1), xscale="log", xlabel="d_k", yticks=HALVES)
    right.set_title("share of the largest possible", fontsize=FONT_SIZE)
    right.set_xticks([1, 8, 64, 512], ["1", "8", "64", "512"])
    right.minorticks_off()
    right.legend(fontsize=FONT_SIZE, frameon=False, loc="lower left" if scaled else "upper right")
    return fig


@lru_cache
def _shares(scaled):
    """Return what `saturation` measures at each width, as shares of the largest value that it can take."""
    measured = [measure(scores_of_width(width, scaled)) for width in WIDTHS]
    largest = {"entropy": np.log(8), "largest gradient": 0.25}
    return {name: [each[name] / top for each in measured] for name, top in largest.items()}


def score_spread(d_ks, scores):
    """Draw the distribution of q·k at several widths, with its standard deviation marked.

    Parameters
    ----------
    d_ks : sequence of int
        The widths.
    scores : sequence of arrays
        The scores drawn at each width.

    Returns
    -------
    Drawing
        One row a width: a histogram of its scores and a bar from −√d_k to +√d_k.
    """
    fig, axes = canvas(nrows=len(d_ks), height=0.75 * len(d_ks) + 0.4, sharex=True)
    limit = 3 * np.sqrt(max(d_ks))
    for ax, d_k, drawn in zip(axes, d_ks, scores, strict=True):
        ax.hist(drawn, bins=np.linspace(-limit, limit, 121), density=True, color=BLUE)
        ax.plot([-np.sqrt(d_k), np.sqrt(d_k)], [0, 0], color=ORANGE, linewidth=4, solid_capstyle="butt", clip_on=False)
        ax.set(yticks=[], xlim=(-limit, limit))
        ax.spines["left"].set_visible(False)
        ax.set_title(f"d_k = {d_k}", loc="left", fontsize=FONT_SIZE)
    axes[-1].set_xlabel("score q·k (orange: from −√d_k to +√d_k)")
    return fig


def softmax_curve(differences, weights, gradients):
    """Draw the weight of the first of two keys, and its derivative, over the difference of their scores.

    Parameters
    ----------
    differences : array [n]
        s_1 − s_2.
    weights : array [n]
        p_1 at each difference.
    gradients : array [n]
        ∂p_1/∂s_1 at each difference.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.2)
    ax.plot(differences, weights, color=BLUE, label="weight p₁")
    ax.plot(differences, gradients, color=RED, label="gradient ∂p₁/∂s₁")
    ax.set(xlabel="difference of the two scores, s₁ − s₂", ylim=(0, 1.02), xlim=(differences[0], differences[-1]))
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig


def temperature_curves(temperatures, weights):
    """Draw one row's weights at several temperatures side by side.

    Parameters
    ----------
    temperatures : sequence of float
        What the scores were divided by.
    weights : array [len(temperatures), n]
        The weights at each.

    Returns
    -------
    Drawing
    """
    fig, axes = canvas(ncols=len(temperatures), height=1.7, sharey=True)
    for ax, temperature, row in zip(axes, temperatures, weights, strict=True):
        ax.bar(np.arange(len(row)), row, color=BLUE)
        ax.set_title(f"τ = {temperature:g}", fontsize=FONT_SIZE)
        ax.set(xticks=range(len(row)), xlabel="key", ylim=(0, 1))
    axes[0].set_ylabel("weight")
    return fig
