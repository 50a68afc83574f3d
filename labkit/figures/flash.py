"""The pictures of chapter 12."""

import numpy as np
from matplotlib.patches import Polygon, Rectangle

from labkit.accounting import ridge, roofline
from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas
from labkit.figures.kv_cache import draw_roof
from labkit.flash import blocks, blocks_that_fit, naive_traffic, reach, tiled_traffic, visible

ON_CHIP = tuple(2**i for i in range(12, 21))  # sizes of fast memory, in numbers

# One run of the chapter's `measure` on one core of a server (float32, d_k = 64, tiles of 128 × 128): for each T, the
# largest memory that was held, in bytes, and the processor time, in seconds, first of plain attention, then in tiles.
MEASURED = {
    256: (824_456, 0.00054, 348_756, 0.00051),
    512: (3_186_888, 0.00215, 417_260, 0.00197),
    1024: (12_630_192, 0.00628, 548_268, 0.00822),
    2048: (50_391_072, 0.0210, 814_412, 0.0346),
    4096: (201_410_592, 0.0811, 1_346_860, 0.1326),
    8192: (805_406_752, 0.3029, 2_411_980, 0.5432),
}


def tile_walk(scores, values, tile, tops, counted, path, target):
    """Draw an online softmax after some of its tiles.

    Parameters
    ----------
    scores : array [n]
        Scores of one query; −∞ where masked.
    values : array [n, 2]
        What each key passes on, as points of a plane.
    tile : int
        Keys in a tile.
    tops : sequence of float
        The running maximum at the start (−∞) and after each tile so far.
    counted : array [n]
        What each key counts in the running sum now: 0 for keys that are still to come.
    path : array [steps, 2]
        The running output after each tile so far in which there was one.
    target : array [2]
        What plain attention gives.

    Returns
    -------
    Drawing
        Top: the scores, a tile shaded, with the running maximum. Below: what each key counts, and the output's path.
    """
    n, seen = len(scores), tile * (len(tops) - 1)
    fig, axes = canvas(height=3.7, mosaic=[["scores", "."], ["counts", "plane"]], width_ratios=[1.3, 1])
    upper, lower, plane = axes.values()
    for ax in (upper, lower):
        for start in range(0, n, 2 * tile):
            ax.axvspan(start - 0.5, start + tile - 0.5, color=GREY, alpha=0.15, linewidth=0)
        ax.set(xlim=(-0.5, n - 0.5))
    upper.set_xticks([])  # they are those below
    finite = np.flatnonzero(scores > -np.inf)
    for at, colour, name in ((finite[finite < seen], BLUE, "seen"), (finite[finite >= seen], GREY, "still to come")):
        upper.plot(at, scores[at], "o", color=colour, markersize=5, label=name)
    ends = np.arange(len(tops)) * tile - 0.5
    upper.step(ends, tops, where="pre", color=ORANGE, linewidth=1.6, label="running maximum")
    low, high = scores[finite].min(), scores[finite].max()
    upper.set(ylim=(low - 0.1 * (high - low), high + 0.1 * (high - low)), ylabel="score")
    lower.bar(np.arange(n), counted, color=BLUE)
    lower.set(
        ylim=(0, 1.05),
        xticks=range(0, n, 4),
        yticks=(0, 0.5, 1),
        xlabel="key (shaded: every other tile)",
        ylabel="counts as",
    )
    _plane(plane, values, path, target)
    upper.locator_params(axis="y", nbins=3)
    plane.set(xticks=[], yticks=[])  # what counts is where the output lies among the values
    handles = [*upper.get_legend_handles_labels()[0], *plane.get_legend_handles_labels()[0]]
    fig.legend(handles=handles, fontsize=FONT_SIZE, frameon=False, loc="center", bbox_to_anchor=(0.82, 0.77))
    return fig


def _plane(ax, values, path, target):
    """Draw the values, the way of the running output among them, and where it must end."""
    ax.plot(*values.T, "o", color=GREY, markersize=3, label="values")
    ax.plot(*target, "x", color=ORANGE, markersize=9, markeredgewidth=2, label="attention's answer")
    if len(path):
        ax.plot(*path.T, "-", color=BLUE, linewidth=1)
        ax.plot(*path[-1], "o", color=BLUE, markersize=6, label="output so far")
    low, high = values.min(axis=0), values.max(axis=0)
    margin = 0.12 * (high - low)
    ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))
    ax.set(xlabel="output, first number", ylabel="second number")


def data_flow(flows):
    """Draw what crosses between slow memory and the chip, array by array.

    Parameters
    ----------
    flows : dict of str to dict of str to (int, int)
        For each way to compute attention: for each array, how many numbers are read, and how many are written.

    Returns
    -------
    Drawing
        A panel for each way. A downward arrow is a read, an upward one a write, with how many millions of numbers
        cross. An arrow's width is in proportion to the square root of that.
    """
    fig, axes = canvas(height=1.9 * len(flows), nrows=len(flows))
    most = max(max(pair) for arrays in flows.values() for pair in arrays.values())
    for ax, (title, arrays) in zip(np.atleast_1d(axes), flows.items(), strict=True):
        ax.set_title(title, fontsize=FONT_SIZE, loc="left")
        for bottom, name in ((1.0, "slow memory"), (-0.35, "on chip")):
            ax.add_patch(Rectangle((-0.6, bottom), 6.6, 0.35, color=GREY, alpha=0.18, linewidth=0))
            ax.text(-0.5, bottom + 0.175, name, fontsize=FONT_SIZE, va="center")
        for at, (name, pair) in enumerate(arrays.items()):
            x = 0.95 + at * 4.55 / (len(arrays) - 1)
            ax.text(x, 1.175, name, ha="center", va="center", fontsize=FONT_SIZE)
            both = all(pair)
            for floats, down in zip(pair, (True, False), strict=True):
                if floats:
                    _arrow(ax, x + (0.19 if down else -0.19) * both, floats, most, down)
        ax.set(xlim=(-0.6, 6.0), ylim=(-0.35, 1.35), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    return fig


def _arrow(ax, x, floats, most, down):
    """Draw one array's way between the memories, and at its foot how many millions of numbers cross."""
    width = 0.3 * np.sqrt(floats / most)
    tail, neck, head = (0.97, 0.2, 0.03) if down else (0.03, 0.8, 0.97)
    side, tip = width / 2, width / 2 + 0.06
    corners = [(-side, tail), (-side, neck), (-tip, neck), (0, head), (tip, neck), (side, neck), (side, tail)]
    ax.add_patch(Polygon([(x + dx, y) for dx, y in corners], color=BLUE if down else ORANGE, linewidth=0))
    ax.text(x, -0.175, f"{floats / 1e6:.2f}", ha="center", va="center", fontsize=FONT_SIZE)


def tile_map(T, S, block_q, block_k, rules):
    """Draw the tiles of a table of scores, and which of them are computed.

    Parameters
    ----------
    T, S : int
        Number of queries and of keys.
    block_q, block_k : int
        Rows and columns of a tile.
    rules : dict of str to dict
        For each panel, its title and what `flash_attention` is given: causal, window.

    Returns
    -------
    Drawing
        Each tile is a rectangle: computed whole, computed and masked in part, or skipped (its label says which). Dots
        mark the scores that count.
    """
    fig, axes = canvas(height=2.2, ncols=len(rules), sharey=True)
    style = {"whole": (BLUE, 0.75), "in part": (BLUE, 0.3), "skipped": (GREY, 0.12)}
    for ax, (title, rule) in zip(np.atleast_1d(axes), rules.items(), strict=True):
        for rows in blocks(0, T, block_q):
            first, stop = reach(rows, T, S, block_k, **rule)
            for columns in blocks(0, S, block_k):
                seen = visible(rows, columns, T, S, **rule)
                size = rows.stop - rows.start, columns.stop - columns.start
                seen = np.ones(size, dtype=bool) if seen is None else seen
                kind = "skipped" if not first <= columns.start < stop else "whole" if seen.all() else "in part"
                colour, alpha = style[kind]
                at = columns.start - 0.5, rows.start - 0.5
                ax.add_patch(Rectangle(at, *size[::-1], facecolor=colour, alpha=alpha, linewidth=0, label=kind))
                ax.add_patch(Rectangle(at, *size[::-1], fill=False, edgecolor=GREY, linewidth=0.8))
                i, j = np.nonzero(seen)
                ax.plot(j + columns.start, i + rows.start, ".", color="black", markersize=1.5)
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(xlim=(-0.6, S - 0.4), ylim=(T - 0.4, -0.6), xlabel="key")
        ax.set_aspect("equal")
        ax.spines[["left", "bottom"]].set_visible(False)
    np.atleast_1d(axes)[0].set_ylabel("query")
    handles = [Rectangle((0, 0), 1, 1, facecolor=c, alpha=a) for c, a in style.values()]
    names = ["computed whole", "computed, masked in part", "skipped"]
    fig.legend(handles, names, fontsize=FONT_SIZE, frameon=False, loc="outside lower center", ncols=3)
    return fig


def traffic(T, d_head, on_chip):
    """Draw what one head of attention moves, plain and in tiles, over the size of the fast memory.

    Parameters
    ----------
    T : int
        Queries and keys.
    d_head : int
        Width of queries, keys and values.
    on_chip : int
        The size to mark, in numbers; one of ON_CHIP.

    Returns
    -------
    Drawing
        Numbers moved: in tiles (the largest that fit), plain, and if each input and output crossed once.
    """
    moved = [tiled_traffic(T, T, d_head, *blocks_that_fit(size, d_head)) for size in ON_CHIP]
    naive, least = naive_traffic(T, T, d_head), 4 * T * d_head
    fig, ax = canvas(height=2.7)
    ax.plot(ON_CHIP, moved, color=BLUE, label="in tiles")
    ax.plot(on_chip, moved[ON_CHIP.index(on_chip)], "o", color=BLUE)
    ax.axhline(naive, color=RED, label="plain")
    ax.axhline(least, color=GREY, linestyle="--", label="inputs and output once")
    ax.axvline(on_chip, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="size of fast memory, in numbers", ylabel="numbers moved, millions")
    ax.set_xticks([2**12, 2**14, 2**16, 2**18, 2**20], ["4 Ki", "16 Ki", "64 Ki", "256 Ki", "1 Mi"])
    ax.set_ylim(least / 2, 4 * max(naive, moved[0]))
    powers = [10.0**n for n in range(5, 13) if least / 2 <= 10**n <= 4 * max(naive, moved[0])]
    ax.set_yticks(powers, [f"{power / 1e6:,g}" for power in powers])
    ax.minorticks_off()
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=3)
    return fig


def roofline_chart(accelerator, points):
    """Draw the roofline of a chip, and where some computations stand on it.

    Parameters
    ----------
    accelerator : labkit.accounting.Accelerator
    points : dict of str to float
        FLOP per byte of four computations.

    Returns
    -------
    Drawing
        The highest rate over arithmetic intensity, both axes logarithmic.
    """
    fig, ax = canvas(height=2.7)
    chip = draw_roof(ax, accelerator, 2000)
    ax.text(ridge(*chip) * 1.1, 0.75, f"ridge: {ridge(*chip):.0f}", fontsize=FONT_SIZE)
    for (name, at), colour in zip(points.items(), (GREEN, RED, BLUE, BLUE), strict=True):
        rate = float(roofline(at, *chip)) / 1e12
        ax.plot(at, rate, "o", color=colour, label=name)
        offset = (8, -9) if at < ridge(*chip) else (0, 7)
        ax.annotate(name, (at, rate), offset, textcoords="offset points", fontsize=FONT_SIZE)
    ax.set(xscale="log", yscale="log", xlim=(0.5, 2000), ylim=(0.5, 1000))
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.minorticks_off()
    ax.set(xlabel="FLOP for each byte moved", ylabel="TFLOP/s at most")
    return fig


def measured(runs):
    """Draw measured memory and time of plain and tiled attention over the length of the sequence.

    Parameters
    ----------
    runs : dict of int to (int, float, int, float)
        For each T: bytes and seconds of plain attention, bytes and seconds in tiles.

    Returns
    -------
    Drawing
        Two panels, all axes logarithmic: peak memory in MB, time in ms.
    """
    lengths, numbers = list(runs), np.array(list(runs.values()))
    fig, axes = canvas(height=2.4, ncols=2)
    panels = ((axes[0], (0, 2), 1e6, "peak memory in MB"), (axes[1], (1, 3), 1e-3, "time in ms"))
    for ax, columns, unit, name in panels:
        for column, colour, label in zip(columns, (RED, BLUE), ("plain", "in tiles"), strict=True):
            ax.plot(lengths, numbers[:, column] / unit, "o-", color=colour, markersize=3, label=label)
        ax.set(xscale="log", yscale="log", xlabel="T, queries and keys", ylim=(0.25, 1500))
        ax.set_title(name, fontsize=FONT_SIZE)
        ax.set_xticks(lengths[::2], [str(T) for T in lengths[::2]])
        ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
        ax.minorticks_off()
    axes[0].legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig
