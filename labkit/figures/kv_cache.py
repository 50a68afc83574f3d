"""The pictures of chapter 6."""

import numpy as np
from matplotlib.patches import Ellipse, Polygon, Rectangle

from labkit.accounting import least_seconds, ridge, roofline
from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas, opacity
from labkit.kv_cache import cache_bytes, repeat_kv

CONTEXTS = tuple(2**i for i in range(10, 18))  # tokens
KV_HEADS = (1, 2, 4, 8, 16, 32)
PRECISIONS = (4, 2, 1, 0.5)  # bytes of a value
PRODUCTS = tuple(2.0**i for i in range(-1, 8))  # every n_kv_heads · bytes there can be
COLOURS = (ORANGE, BLUE, GREEN, RED, GREY)


def work_of_steps(panels):
    """Draw for which tokens keys and values are computed, and for which they are read, at each step.

    Parameters
    ----------
    panels : dict of str to integer array [steps, T]
        For each title: 2 where a token's key and value are computed at a step, 1 where they are read from a cache, 0
        where neither happens.

    Returns
    -------
    Drawing
        A panel for each title, a step in each row, a token in each column.
    """
    fig, axes = canvas(height=2.5, ncols=len(panels), sharey=True)
    for ax, (title, work) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        steps, T = np.shape(work)
        for step, token in zip(*np.nonzero(work), strict=True):
            style = {"facecolor": BLUE, "alpha": 0.8 if work[step][token] == 2 else 0.25, "linewidth": 0}
            ax.add_patch(Rectangle((token + 0.04, step + 0.04), 0.92, 0.92, **style))
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(xlim=(0, T), ylim=(steps, 0), xlabel="token")
        ax.set_xticks(np.arange(T) + 0.5, [str(token) for token in range(T)])
        ax.set_yticks(np.arange(steps) + 0.5, [str(step + 1) for step in range(steps)])
        ax.tick_params(length=0)
        ax.set_aspect("equal")
    np.atleast_1d(axes)[0].set_ylabel("step")
    handles = [Rectangle((0, 0), 1, 1, facecolor=BLUE, alpha=alpha) for alpha in (0.8, 0.25)]
    names = ["computed in this step", "read from the cache"]
    fig.legend(handles, names, fontsize=FONT_SIZE, frameon=False, loc="outside lower center", ncols=2)
    return fig


def shared_heads(n_heads, groups):
    """Draw which query head uses which key/value head.

    Parameters
    ----------
    n_heads : int
        Query heads.
    groups : dict of str to int
        For each panel, its title and its number of key/value heads.

    Returns
    -------
    Drawing
        Query heads above, key/value heads below, a line from each query head to the one that it uses.
    """
    fig, axes = canvas(height=1.6, ncols=len(groups))
    for ax, (title, G) in zip(np.atleast_1d(axes), groups.items(), strict=True):
        used = repeat_kv(np.arange(G).reshape(G, 1, 1), n_heads).ravel()
        below = [np.flatnonzero(used == g).mean() for g in range(G)]
        for h, g in enumerate(used):
            ax.plot([h, below[g]], [0.83, 0.17], color=GREY, linewidth=1)
        for names, xs, y, colour in (("q", range(n_heads), 1, BLUE), ("kv", below, 0, ORANGE)):
            for at, x in enumerate(xs):
                style = {"facecolor": colour, "edgecolor": colour, "alpha": 0.3}
                ax.add_patch(Rectangle((x - 0.36, y - 0.17), 0.72, 0.34, **style))
                ax.text(x, y, f"{names}{at}", ha="center", va="center", fontsize=FONT_SIZE)
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(xlim=(-0.5, n_heads - 0.5), ylim=(-0.3, 1.3), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    return fig


def lines_of_size(n_kv_heads, bytes_per_value):
    """Return the opacity of each line of `cache_size`: strong where n_kv_heads · bytes is its product."""
    return [1.0 if product == n_kv_heads * bytes_per_value else 0.25 for product in PRODUCTS]


def dots_of_size(context, n_kv_heads, bytes_per_value):
    """Return the opacity of each dot of `cache_size`, line by line: one of them shows."""
    chosen = np.array(PRODUCTS) == n_kv_heads * bytes_per_value
    return np.outer(chosen, np.array(CONTEXTS) == context).ravel().astype(float)


def cache_size(context, n_kv_heads, bytes_per_value, n_layers, d_head, marks):
    """Draw the size of a cache over the context, a line for each n_kv_heads · bytes_per_value.

    Parameters
    ----------
    context : int
        One of CONTEXTS, in tokens of one sequence.
    n_kv_heads : int
        One of KV_HEADS.
    bytes_per_value : float
        One of PRECISIONS.
    n_layers, d_head : int
        Of the model.
    marks : dict of str to float
        Levels to compare with, in bytes.

    Returns
    -------
    Drawing
        Both axes are base-2 logarithms, labelled in tokens and bytes. The lines have the gids line-0, …; the dots, for
        each line at each context, dot-0, ….
    """
    fig, ax = canvas(height=3.2)
    x = np.log2(CONTEXTS)
    dots, lines = dots_of_size(context, n_kv_heads, bytes_per_value), lines_of_size(n_kv_heads, bytes_per_value)
    for i, product in enumerate(PRODUCTS):  # of heads and bytes, only the product counts
        y = np.log2([cache_bytes(n_layers, 1, d_head, c, bytes_per_value=product) for c in CONTEXTS])
        # A patch, since the SVG of a plotted line holds its opacity in its colour, where the page cannot set it.
        style = {"fill": False, "edgecolor": BLUE, "linewidth": 1.8, "alpha": opacity(lines[i])}
        ax.add_patch(Polygon(np.stack([x, y], axis=1), closed=False, gid=f"line-{i}", **style))
        ax.text(x[-1] + 0.12, y[-1], f"{product:g}", fontsize=FONT_SIZE, va="center")
        for j, centre in enumerate(zip(x, y, strict=True)):
            at = i * len(x) + j
            ax.add_patch(Ellipse(centre, 0.17, 0.85, color=ORANGE, alpha=opacity(dots[at]), zorder=3, gid=f"dot-{at}"))
    for name, level in marks.items():
        ax.plot([x[0], x[-1]], 2 * [np.log2(level)], color=RED, linewidth=1, linestyle="--")
        ax.text(10, np.log2(level) + 0.2, name, fontsize=FONT_SIZE)
    ax.text(x[-1] + 0.12, 38.6, "heads ×\nbytes", fontsize=FONT_SIZE, va="bottom")
    ax.set(xlim=(9.9, 17.9), ylim=(21.5, 38.5), xlabel="context in tokens", ylabel="cache of one sequence")
    ax.set_xticks(range(10, 18), [f"{c // 1024} Ki" for c in CONTEXTS])
    ax.set_yticks([24, 28, 32, 36], ["16 MiB", "256 MiB", "4 GiB", "64 GiB"])
    return fig


def cache_over_context(curves):
    """Draw the cache of some models over the context, up to the longest that each was made for.

    Parameters
    ----------
    curves : dict of str to (array [n], array [n])
        For each model: contexts in tokens, bytes.

    Returns
    -------
    Drawing
        Both axes are logarithmic.
    """
    fig, ax = canvas(height=2.9)
    for (name, (contexts, size)), colour in zip(curves.items(), COLOURS, strict=True):
        ax.plot(contexts, np.array(size) / 2**30, color=colour, linewidth=1.6, label=name)
        ax.plot(contexts[-1], size[-1] / 2**30, "o", color=colour, markersize=5)
    ax.set(xscale="log", yscale="log", xlabel="context in tokens", ylabel="cache of one sequence in GiB")
    ax.set_xticks([2**i for i in range(8, 16)], ["256", "512", "1 Ki", "2 Ki", "4 Ki", "8 Ki", "16 Ki", "32 Ki"])
    ax.set_yticks([1 / 32, 1 / 8, 1 / 2, 2], ["1/32", "1/8", "1/2", "2"])
    ax.minorticks_off()
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=3)
    return fig


def draw_roof(ax, accelerator, last):
    """Draw a chip's highest rate (TFLOP/s) over arithmetic intensities up to `last`, and a line at its ridge.

    Returns
    -------
    tuple of float
        The chip's peak rate and bandwidth, as `labkit.accounting.roofline` takes them.
    """
    chip = accelerator.peak_flops, accelerator.bandwidth
    intensity = np.geomspace(0.5, last, 121)
    ax.plot(intensity, roofline(intensity, *chip) / 1e12, color=GREY, linewidth=1.2)
    ax.axvline(ridge(*chip), color=GREY, linewidth=0.8, linestyle=":")
    return chip


def decode_roofline(accelerator, series, prefill):
    """Draw the roofline of a chip, and where decoding stands on it as the batch grows.

    Parameters
    ----------
    accelerator : labkit.accounting.Accelerator
    series : dict of str to dict of int to float
        For two models: FLOP per byte at each batch.
    prefill : float
        FLOP per byte of reading a prompt.

    Returns
    -------
    Drawing
        The highest rate over arithmetic intensity, both axes logarithmic.
    """
    fig, ax = canvas(height=3.0)
    chip = draw_roof(ax, accelerator, 8000)
    ax.text(ridge(*chip) * 0.9, 1.2, f"ridge: {ridge(*chip):.0f}", fontsize=FONT_SIZE, ha="right")
    for (name, points), colour, marker, size in zip(series.items(), (ORANGE, BLUE), "os", (9, 5), strict=True):
        rates = roofline(np.array(list(points.values())), *chip) / 1e12
        ax.plot(list(points.values()), rates, marker, color=colour, markersize=size, label=name)
        side = {"ha": "right", "xytext": (-8, 4)} if colour == ORANGE else {"ha": "left", "xytext": (7, -9)}
        for batch, at, rate in zip(points, points.values(), rates, strict=True):
            ax.annotate(f"{batch}", (at, rate), textcoords="offset points", fontsize=FONT_SIZE, **side)
    ax.plot(prefill, float(roofline(prefill, *chip)) / 1e12, "D", color=GREEN, markersize=6, label="prefill, batch 1")
    ax.set(xscale="log", yscale="log", xlim=(0.4, 8000), ylim=(0.8, 700))
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
    ax.minorticks_off()
    ax.set(xlabel="FLOP for each byte moved", ylabel="TFLOP/s at most")
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=3)
    return fig


def step_time(batch, context, n_kv_heads, models, accelerator):
    """Draw the least time of one decoding step over the context, for some numbers of key/value heads.

    Parameters
    ----------
    batch : int
        Sequences that are decoded together.
    context : int
        The context to mark, one of CONTEXTS.
    n_kv_heads : int
        The model to mark, one of `models`.
    models : dict of int to ModelConfig
        Models by their n_kv_heads.
    accelerator : labkit.accounting.Accelerator

    Returns
    -------
    Drawing
        Milliseconds, both axes logarithmic and the same for every setting.
    """
    fig, ax = canvas(height=2.8)
    for (G, config), colour in zip(models.items(), COLOURS, strict=False):
        ms = [1e3 * least_seconds(config, "decode", c, accelerator, batch) for c in CONTEXTS]
        width = 2.4 if n_kv_heads == G else 1.0
        ax.plot(CONTEXTS, ms, color=colour, linewidth=width, label=f"n_kv_heads = {G}")
        if n_kv_heads == G:
            ax.plot(context, ms[CONTEXTS.index(context)], "o", color=colour, markersize=7)
    ax.set(xscale="log", yscale="log", xlabel="context in tokens", ylabel="one step, ms at least", ylim=(4, 20_000))
    ax.set_xticks(CONTEXTS, [f"{c // 1024} Ki" for c in CONTEXTS])
    ax.set_yticks([10, 100, 1000, 10_000], ["10", "100", "1000", "10,000"])
    ax.minorticks_off()
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=3)
    return fig
