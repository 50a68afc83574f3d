"""The pictures of the page on performance."""

import numpy as np

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas

COLOURS = (BLUE, ORANGE, GREEN, RED)
EDGE = 10  # times better or worse than a target; bars that go on are cut off there


def headroom(measured, at_least=None, at_most=None):
    """Return how far a ratio is on the right side of its target: 1 meets it exactly, 2 is twice as good, ½ half.

    Examples
    --------
    >>> headroom(3.0, at_least=1.5), headroom(3.0, at_most=1.5)
    (2.0, 0.5)
    """
    return measured / at_least if at_most is None else at_most / measured


def targets(values):
    """Draw how far each of several measurements is on the right side of its target.

    Parameters
    ----------
    values : dict of str to float
        For each measurement its `headroom`, above 0.

    Returns
    -------
    Drawing
        A bar for each, the first on top, from the line of the target: to the right where the target is met, to the
        left and in another colour where it is missed. The axis is logarithmic and ends at ten times either way.
    """
    fig, ax = canvas(height=0.55 + 0.2 * len(values))
    for at, value in enumerate(values.values()):
        ax.barh(at, value - 1, left=1, height=0.7, color=BLUE if value >= 1 else RED, alpha=0.75)
    ax.axvline(1, color=GREY, linewidth=1.2)
    ax.set_yticks(range(len(values)), list(values))
    ax.set(xscale="log", xlim=(1 / EDGE, EDGE), ylim=(len(values) - 0.4, -0.6))
    ax.set_xticks([0.2, 1, 5], ["⅕×", "1×", "5×"])
    ax.minorticks_off()
    ax.set_xlabel("times as good as the target")
    return fig


def over_length(panels):
    """Draw ratios over the number of tokens, a panel for each group of them.

    Parameters
    ----------
    panels : dict of str to dict
        For each title: "T" [n], "lines" (dict of str to [n], ratios above 0), "targets" (floats, drawn as dashed
        lines), and "ylabel".

    Returns
    -------
    Drawing
        Both axes are logarithmic. Each line is named beside its last point.
    """
    fig, axes = canvas(height=2.5, ncols=len(panels))
    for ax, (title, panel) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        for colour, (name, values) in zip(COLOURS, panel["lines"].items(), strict=False):
            ax.plot(panel["T"], values, color=colour, marker="o", markersize=3, linewidth=1.4, label=name)
        for target in panel["targets"]:
            ax.axhline(target, color=GREY, linewidth=1, linestyle="--")
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(xscale="log", yscale="log", xlabel="tokens T", ylabel=panel["ylabel"])
        shown = panel["T"][:: max(1, len(panel["T"]) // 3)]
        ax.set_xticks(shown, [f"{T // 1024}k" if T >= 1024 and T % 1024 == 0 else f"{T}" for T in shown])
        drawn = [value for values in panel["lines"].values() for value in values] + list(panel["targets"])
        ax.set_yticks(*_ticks(min(drawn), max(drawn)))
        ax.set_ylim(min(drawn) / 1.4, max(drawn) * 1.4)
        ax.minorticks_off()
        ax.legend(fontsize=FONT_SIZE - 1, frameon=False)
    return fig


def follows_bytes(n_kv_heads, fewer_bytes, faster):
    """Draw how much faster a decode step gets with fewer bytes in the cache, and how much it would if bytes were all.

    Parameters
    ----------
    n_kv_heads : integer array [n]
        Numbers of key/value heads.
    fewer_bytes, faster : array [n]
        For each, how many times fewer bytes than with the first, and how many times faster.

    Returns
    -------
    Drawing
        A point for each, named by its number of heads, under the line on which time follows the bytes.
    """
    fig, ax = canvas(height=2.3)
    edge = max(fewer_bytes) * 1.5
    ax.plot([0.8, edge], [0.8, edge], color=GREY, linewidth=1, linestyle="--", label="time follows the bytes")
    ax.plot(fewer_bytes, faster, color=BLUE, marker="o", markersize=4, linewidth=1.4, label="measured")
    for G, x, y in zip(n_kv_heads, fewer_bytes, faster, strict=True):
        ax.text(x, y * 0.72, f"G = {G}", ha="left", va="top", fontsize=FONT_SIZE)
    ax.set(xscale="log", yscale="log", xlabel="times fewer bytes", ylabel="times faster")
    ax.set(xlim=(0.8, edge), ylim=(0.4, edge))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(*_ticks(1, edge))
    ax.minorticks_off()
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig


def shares(groups, xlabel):
    """Draw many values of each group as dots on a line of its own, beside the line of what is allowed.

    Parameters
    ----------
    groups : dict of str to array
        For each group its values, as shares of what is allowed.
    xlabel : str

    Returns
    -------
    Drawing
        The line at 1 is what is allowed.
    """
    fig, ax = canvas(height=0.7 + 0.35 * len(groups))
    for at, (colour, values) in enumerate(zip(COLOURS, groups.values(), strict=False)):
        ax.plot(values, np.full(len(values), at), "o", color=colour, markersize=5, alpha=0.5)
    ax.axvline(1, color=GREY, linewidth=1.2, linestyle="--")
    ax.set_yticks(range(len(groups)), list(groups))
    largest = max(1, *(max(values) for values in groups.values()))
    ax.set(xlim=(0, 1.08 * largest), ylim=(len(groups) - 0.5, -0.5), xlabel=xlabel)
    return fig


def _ticks(low, high):
    """Return some round numbers between two, and how to write them."""
    steps = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    inside = [step for step in steps if low / 1.4 <= step <= high * 1.4]
    inside = inside if len(inside) < 7 else [step for step in inside if f"{step:e}".startswith("1")]
    return inside, [f"{step:,g}" for step in inside]
