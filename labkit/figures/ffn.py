"""The pictures of chapter 9."""

import numpy as np

from labkit.ffn import gelu, silu
from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas

ACTIVATIONS = ("ReLU", "GELU, tanh", "GELU, erf", "SiLU")
GATES = tuple(np.arange(-4, 4.5, 0.5).tolist())


def activation(name, z):
    """Return one of the four activations of z.

    Parameters
    ----------
    name : str
        One of `ACTIVATIONS`.
    z : float or array [...]

    Returns
    -------
    array [...]

    Examples
    --------
    >>> [round(float(activation(name, 1.0)), 4) for name in ACTIVATIONS]
    [1.0, 0.8412, 0.8413, 0.7311]
    """
    z = np.asarray(z, dtype=np.float64)
    if name == "ReLU":
        return np.maximum(z, 0)
    if name == "SiLU":
        return silu(z)
    return gelu(z, "tanh" if name == "GELU, tanh" else "none")


def slope(name, z):
    """Return the derivative of an activation at z, by moving z a little each way.

    Parameters
    ----------
    name : str
        One of `ACTIVATIONS`.
    z : float or array [...]

    Returns
    -------
    array [...]

    Examples
    --------
    >>> float(slope("SiLU", 0.0).round(6))
    0.5
    """
    z = np.asarray(z, dtype=np.float64)
    return (activation(name, z + 1e-5) - activation(name, z - 1e-5)) / 2e-5


def gated_unit(name, z):
    """Draw an activation with one point of it marked, and what a gate at that point does to what may pass.

    Parameters
    ----------
    name : str
        One of `ACTIVATIONS`.
    z : float
        What enters the activation: one entry of x W_gate.

    Returns
    -------
    Drawing
        Left: all four activations, the chosen one in colour, its point at z and its tangent there. Right: the unit's
        output activation(z) · u over u, one entry of x W_up, beside the line of a gate that lets all pass.
    """
    zs, us, value = np.linspace(-4, 4, 161), np.array([-3.0, 3.0]), activation(name, z)
    fig, (left, right) = canvas(ncols=2, height=2.7)
    for other in ACTIVATIONS:
        left.plot(zs, activation(other, zs), color=GREY, linewidth=0.6)
    left.plot(zs, activation(name, zs), color=BLUE, linewidth=2)
    left.plot(z + np.array([-0.8, 0.8]), value + slope(name, z) * np.array([-0.8, 0.8]), color=RED)
    left.plot(z, value, "o", color=ORANGE)
    left.set(xlim=(-4.2, 4.2), ylim=(-1.2, 4.4), xlabel="z, one entry of x W_gate", ylabel="activation of z")
    left.set_title(name, fontsize=FONT_SIZE)
    right.plot(us, us, color=GREY, linewidth=0.8, linestyle="--")
    right.plot(us, value * us, color=ORANGE, linewidth=2)
    right.set(xlim=us, ylim=(-12.5, 12.5), xlabel="u, one entry of x W_up", ylabel="what passes")
    right.set_title("activation(z) · u (dashed: u)", fontsize=FONT_SIZE)
    return fig


def two_gelus(x, tanh, exact):
    """Draw how far GELU's tanh form lies from the exact one.

    Parameters
    ----------
    x : array [n]
    tanh, exact : array [n]
        Both forms at x.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.0)
    ax.plot(x, np.asarray(tanh) - np.asarray(exact), color=RED)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="x", ylabel="tanh form − exact", xlim=(x[0], x[-1]))
    return fig


def where_parameters_live(names, counts):
    """Draw the share of each part in the parameters of several models.

    Parameters
    ----------
    names : sequence of str
        The models.
    counts : sequence of dict
        What `labkit.model.count_params` returns for each.

    Returns
    -------
    Drawing
        One bar a model, from 0 to 1, divided among the parts; a dotted line stands at two thirds of the whole.
    """
    fig, ax = canvas(height=0.36 * len(names) + 1.3)
    tables = [c["embedding"] + c["positions"] + c["head"] for c in counts]
    parts = {
        "FFN": ([c["ffn"] for c in counts], ORANGE),
        "attention": ([c["attention"] for c in counts], BLUE),
        "tables": (tables, GREEN),
    }
    total, left = np.array([c["total"] for c in counts]), np.zeros(len(names))
    for name, (values, colour) in parts.items():
        share = np.array(values) / total
        ax.barh(np.arange(len(names)), share, left=left, color=colour, label=name, height=0.7)
        left = left + share
    ax.axvline(2 / 3, color="black", linewidth=1, linestyle=":")
    ax.set_yticks(np.arange(len(names)), names)
    ax.set(xlim=(0, 1), xlabel="share of all parameters (dotted: two thirds)")
    ax.invert_yaxis()
    fig.legend(loc="outside upper center", ncols=3, fontsize=FONT_SIZE, frameon=False)
    return fig


def work_over_context(contexts, shares, crossing):
    """Draw which share of a token's arithmetic each part takes, over how many keys the token sees.

    Parameters
    ----------
    contexts : sequence of int
    shares : dict of str to sequence of float
        "FFN", "projections" and "scores": the share of each at each context.
    crossing : float
        The context at which scores cost as much as the FFN.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.4)
    for (name, values), colour in zip(shares.items(), (ORANGE, BLUE, RED), strict=True):
        ax.plot(contexts, values, color=colour, label=name)
    ax.axvline(crossing, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xscale="log", xlim=(contexts[0], contexts[-1]), ylim=(0, 1), xlabel="keys that the token sees")
    ax.set_ylabel("share of the block's arithmetic", fontsize=FONT_SIZE)
    ticks = [c for c in contexts if c in (128, 1024, 8192, 65_536)]
    ax.set_xticks(ticks, [f"{c:,}" for c in ticks])
    ax.minorticks_off()
    fig.legend(loc="outside upper center", ncols=3, fontsize=FONT_SIZE, frameon=False)
    return fig
