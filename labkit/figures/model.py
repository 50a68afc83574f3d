"""The pictures of chapter 11."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas, opacity

PARTS = ("embedding", "positions", "attention", "ffn", "norms", "head")
CELLS = 25  # of each bar: 4 % of the parameters a cell
_COLOURS = dict(zip(PARTS, (BLUE, GREY, ORANGE, GREEN, RED, BLUE), strict=True))


def forward_pass(config, T):
    """Draw the way from token ids to logits: the stream from top to bottom, and what reads from it and adds to it.

    Parameters
    ----------
    config : ModelConfig
        Pre-norm, with RoPE.
    T : int
        How many tokens there are.

    Returns
    -------
    Drawing
        The boxes carry the numbers of the six steps, the shapes stand at the arrows.
    """
    fig, ax = canvas(height=4.7)
    stream = f"[{T}, {config.d_model}]"
    boxes = [(0, "token ids", GREY), (1.2, "1  embedding", BLUE), (7.4, "5  final norm", RED), (8.6, "6  head", BLUE)]
    for y, name, colour in [*boxes, (9.8, "logits", GREY)]:
        _box(ax, 2, y, 1.5, name, colour)
    shapes = {0: f"[{T}]", 1.2: stream, 6.2: stream, 7.4: stream, 8.6: f"[{T}, {config.vocab_size}]"}
    for y, shape in shapes.items():
        _arrow(ax, (2, y + 0.3), (2, y + (1.6 if y == 1.2 else 0.9)), BLUE)
        ax.text(1.8, y + 0.62, shape, ha="right", va="center", fontsize=FONT_SIZE)
    frame = {"boxstyle": "round,pad=0,rounding_size=0.2", "fill": False, "edgecolor": GREY, "linestyle": "--"}
    ax.add_patch(FancyBboxPatch((1.3, 2.85), 5.2, 3.75, **frame))
    ax.text(6.35, 6.33, f"4  blocks, {config.n_layers} times", ha="right", va="center", fontsize=FONT_SIZE)
    for y, name, colour in ((3.6, "attention", ORANGE), (5.2, "FFN", GREEN)):
        _box(ax, 4, y, 0.8, "norm", RED)
        _box(ax, 5.65, y, 1.4, name, colour)
        _arrow(ax, (2, y), (3.6, y), GREY)
        _arrow(ax, (4.4, y), (4.95, y), GREY)
        ax.plot([5.65, 5.65], [y + 0.3, y + 0.8], color=GREY, linewidth=1.2)
        _arrow(ax, (5.65, y + 0.8), (2.24, y + 0.8), GREY)
        ax.text(2, y + 0.8, "+", ha="center", va="center", fontsize=FONT_SIZE + 2)
    for start, end in ((2.85, 4.15), (4.65, 5.75), (6.25, 6.5)):
        ax.plot([2, 2], [start, end], color=BLUE, linewidth=2)
    for y, name, shape, aim in ((3.1, "2  positions", f"[{T}]", 3.45), (4.2, "3  mask", f"[{T}, {T}]", 3.75)):
        _box(ax, 8.35, y, 1.8, f"{name}  {shape}", GREY)
        _arrow(ax, (7.5, y), (6.35, aim), GREY)
    ax.set(xlim=(0.6, 9.35), ylim=(10.2, -0.4))
    ax.axis("off")
    return fig


def next_tokens(names, probabilities, actual, alone):
    """Draw one row of logits as probabilities: its likeliest tokens, and the token that really came.

    Parameters
    ----------
    names : sequence of str
        The likeliest tokens, in order.
    probabilities : sequence of float
        Their probabilities.
    actual : str
        The token that came.
    alone : float
        Its probability.

    Returns
    -------
    Drawing
        A bar for each likely token, the one that came in orange. If it is not among them it has a bar below.
    """
    bars = list(zip(names, probabilities, strict=True))
    bars += [] if actual in names else [(actual, alone)]
    fig, ax = canvas(height=2.7)
    for y, (name, p) in enumerate(bars):
        ax.barh(y, p, color=ORANGE if name == actual else BLUE, height=0.7)
        ax.text(p + 0.01, y, f"{p:.3f}", va="center", fontsize=FONT_SIZE)
    ax.set_yticks(range(len(bars)), [name for name, _ in bars])
    ax.set(xlim=(0, 1.08), ylim=(len(names) + 0.5, -0.5), xlabel="probability (orange: the token that came)")
    ax.set_ylabel("next token")
    ax.set_xticks(np.arange(6) / 5)
    return fig


def part_bars(counts):
    """Draw how a model's parameters are shared out.

    Parameters
    ----------
    counts : dict of str to int
        As `labkit.model.count_params` returns it.

    Returns
    -------
    Drawing
        For each part a bar of 25 cells, with the gids cell-0, cell-1, … part by part, filled to the part's share, and
        its count, with the gids count-0, ….
    """
    fig, ax = canvas(height=2.1)
    filled = part_cells(counts)
    for at, share in enumerate(filled.ravel()):
        y, x = divmod(at, CELLS)
        style = {"color": _COLOURS[PARTS[y]], "linewidth": 0, "alpha": opacity(share), "gid": f"cell-{at}"}
        ax.add_patch(Rectangle((4 * x, y + 0.15), 3.6, 0.7, **style))
    for y, text in enumerate(part_texts(counts)):
        ax.text(142, y + 0.5, text, ha="right", va="center", fontsize=FONT_SIZE, gid=f"count-{y}")
    ax.set_yticks(np.arange(len(PARTS)) + 0.5, [part if part != "ffn" else "FFN" for part in PARTS])
    ax.set_xticks(np.arange(0, 101, 20))
    ax.set(xlim=(0, 143), ylim=(len(PARTS), 0), ylabel="part")
    ax.set_xlabel("share of the parameters, %, and their number", loc="left")
    ax.spines["bottom"].set_bounds(0, 100)
    ax.tick_params(axis="y", length=0)
    return fig


def part_cells(counts):
    """Return how full each cell of each part's bar is.

    Parameters
    ----------
    counts : dict of str to int

    Returns
    -------
    array [6, 25]
        1 for full, 0 for empty. A row's sum is the part's share of 25.

    Examples
    --------
    >>> counts = dict.fromkeys(PARTS, 0) | {"ffn": 3, "head": 1, "total": 4}
    >>> part_cells(counts).sum(axis=1)
    array([ 0.  ,  0.  ,  0.  , 18.75,  0.  ,  6.25])
    """
    shares = np.array([counts[part] / counts["total"] for part in PARTS])
    return np.clip(CELLS * shares[:, None] - np.arange(CELLS), 0, 1)


def part_texts(counts):
    """Return each part's number of parameters as it is written beside its bar.

    Examples
    --------
    >>> part_texts(dict.fromkeys(PARTS, 1234))[0]
    '1,234'
    """
    return [f"{counts[part]:,}" for part in PARTS]


def rules(names, panels):
    """Draw what each rule makes of one distribution.

    Parameters
    ----------
    names : sequence of str
        The likeliest tokens, in order.
    panels : dict of str to array [n]
        For each rule, the probabilities of these tokens. The first is the model's own, drawn in grey behind the rest.

    Returns
    -------
    Drawing
        A panel for each rule, three in a row.
    """
    rows = -(-len(panels) // 3)
    fig, axes = canvas(nrows=rows, ncols=3, height=1.85 * rows, sharex=True, sharey=True)
    at, own = np.arange(len(names)), next(iter(panels.values()))
    for ax, (title, probabilities) in zip(axes.ravel(), panels.items(), strict=False):
        ax.bar(at, own, color=GREY, alpha=0.75, width=0.8)
        ax.bar(at, probabilities, color=BLUE, width=0.45)
        ax.set_title(title, fontsize=FONT_SIZE)
        ax.set(ylim=(0, 1))
        ax.set_xticks(at, names, rotation=90)
    for ax in axes[:, 0]:
        ax.set_ylabel("probability", fontsize=FONT_SIZE)
    for ax in axes[-1]:
        ax.set_xlabel("token", fontsize=FONT_SIZE)
    return fig


def sampling(names, own, drawn):
    """Draw a distribution, and the one that is drawn from once temperature and filters have had their say.

    Parameters
    ----------
    names : sequence of str
        The likeliest tokens, in order, and a last name for all others together.
    own, drawn : array [n]
        The probability of each, before and after.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=3.0)
    at = np.arange(len(names))
    ax.barh(at, own, color=GREY, alpha=0.75, height=0.84, label="the model's own")
    ax.barh(at, drawn, color=BLUE, height=0.42, label="drawn from")
    ax.set_yticks(at, names)
    ax.set(xlim=(0, 1), ylim=(len(at) - 0.4, -0.6), xlabel="probability", ylabel="next token")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=FONT_SIZE, frameon=False)
    return fig


def _box(ax, x, y, width, name, colour):
    """Draw a box around its centre, with its name in it."""
    style = {"boxstyle": "round,pad=0,rounding_size=0.12", "facecolor": colour, "alpha": 0.3, "linewidth": 0}
    ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.3), width, 0.6, **style))
    ax.text(x, y, name, ha="center", va="center", fontsize=FONT_SIZE)


def _arrow(ax, start, end, colour):
    """Draw an arrow from one point to another."""
    style = {"arrowstyle": "->", "color": colour, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=style)
