"""The pictures of chapter 10."""

import math

import numpy as np
from matplotlib.patches import Rectangle

from labkit.block import BlockConfig, assemble_block, attention_sublayer, block_shapes, ffn_sublayer, normalise
from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas, opacity

DEPTHS = (2, 4, 8, 16, 32, 64)


def highway():
    """Draw one block twice: with a norm before each sublayer, and with a norm after each add.

    Returns
    -------
    Drawing
        Two panels. The residual stream runs from left to right at height 1; the sublayers lie below it, at height 0.
    """
    fig, axes = canvas(nrows=2, height=3.3)
    for ax, name in zip(axes, ("pre-norm", "post-norm"), strict=True):
        ax.set_axis_off()
        ax.set(xlim=(0, 10.2), ylim=(-0.5, 1.75))
        ax.text(0, 1.5, name, fontsize=FONT_SIZE, weight="bold")
        on_stream = []
        for start, sublayer in ((0, "attention"), (5, "FFN")):
            below = [(start + 1.4, "norm", 1.1), (start + 3.1, sublayer, 1.6)]
            if name == "post-norm":
                below = [(start + 1.7, sublayer, 1.6)]
                on_stream.append((start + 4.1, "norm", 1.1))
            _way(ax, start + 0.4, start + (4.3 if name == "pre-norm" else 3.0), below)
        _line(ax, 1, 0, 10, on_stream, BLUE, 2.5)
        ax.plot([10.1], [1], ">", color=BLUE, markersize=7)
    return fig


def sizes(stages, stream, added):
    """Draw how large the residual stream is after each sublayer, and how large what the sublayer added.

    Parameters
    ----------
    stages : sequence of str
        What wrote last: the embedding, then each sublayer.
    stream : array [n]
        Root mean square of the stream at each stage.
    added : array [n - 1]
        Root mean square of what each sublayer added.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.5)
    ax.plot(range(len(stages)), stream, "o-", color=BLUE, markersize=4, label="the stream after it")
    ax.plot(range(1, len(stages)), added, "s", color=ORANGE, markersize=5, label="what it added")
    ax.set(yscale="log", ylabel="root mean square (log scale)")
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="lower right")
    _stages(ax, stages)
    return fig


def loss_by_stage(stages, losses, ignorant):
    """Draw the mean loss of the logit lens after each sublayer.

    Parameters
    ----------
    stages : sequence of str
    losses : array [n]
        Nats a token.
    ignorant : float
        The loss of equal probabilities.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.3)
    ax.plot(range(len(stages)), losses, "o-", color=BLUE, markersize=4)
    for i, loss in enumerate(losses):
        ax.annotate(f"{loss:.2f}", (i, loss), (0, -12), textcoords="offset points", ha="center", fontsize=FONT_SIZE)
    ax.axhline(ignorant, color=GREY, linewidth=0.8, linestyle=":")
    ax.text(len(stages) - 1, ignorant, "knows nothing", ha="right", va="bottom", fontsize=FONT_SIZE)
    ax.set(ylabel="loss (nats a token)", ylim=(0, ignorant * 1.12))
    _stages(ax, stages)
    return fig


def contributions(stages, terms, name):
    """Draw what each term of the residual stream adds to one logit, and their sum.

    Parameters
    ----------
    stages : sequence of str
    terms : array [n]
    name : str
        The token that the logit belongs to.

    Returns
    -------
    Drawing
        A bar for each term, blue where it raises the logit and red where it lowers it, and a grey one for the sum.
    """
    values = np.append(terms, np.sum(terms))
    fig, ax = canvas(height=2.4)
    colours = [*(BLUE if term >= 0 else RED for term in terms), GREY]
    ax.bar(range(len(values)), values, color=colours)
    for i, value in enumerate(values):
        ax.annotate(
            f"{value:.1f}".replace("-", "−"),
            (i, max(value, 0)),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=FONT_SIZE,
        )
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set_ylabel(f"added to the logit of {name}")
    ax.margins(y=0.15)
    _stages(ax, [*stages, "sum"])
    return fig


def gradients(with_add, without):
    """Draw the length of the gradient at the input of a stack, by its depth, with and without the residual add.

    Parameters
    ----------
    with_add, without : dict of str to array [stacks, n]
        For each kind of sublayer, the lengths behind 1 … n of them.

    Returns
    -------
    Drawing
        One thin line a stack, on a logarithmic axis. The first kind is solid, the second dashed.
    """
    fig, ax = canvas(height=2.9)
    for kinds, colour, name in ((without, ORANGE, "f(norm(x))"), (with_add, BLUE, "x + f(norm(x))")):
        for (kind, lines), style in zip(kinds.items(), ("-", "--"), strict=True):
            for i, line in enumerate(lines):
                label = f"{name}, {kind}" if i == 0 else None
                ax.plot(range(1, len(line) + 1), line, style, color=colour, linewidth=1, label=label)
    ax.set(yscale="log", xlabel="sublayers", ylabel="length of the gradient (log scale)", xlim=(1, len(line)))
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig


def random_stream(depth, post, scaled, seed=0):
    """Run a stack of random blocks, and return how large its stream is and how large what is added to it.

    Parameters
    ----------
    depth : int
        Number of blocks: attention of 2 heads and SwiGLU, d_model 16, on 8 random vectors. Matrices are normal with
        standard deviation 1/√d_in.
    post : bool
        Whether the norms come after the adds, rather than before the sublayers.
    scaled : bool
        Whether what writes to the stream (w_o, w_down) is divided by √(2 · depth).
    seed : int

    Returns
    -------
    array [2 · depth + 1]
        Root mean square of the stream before the first sublayer and after each.
    array [2 · depth]
        Root mean square of what each sublayer adds.

    Examples
    --------
    >>> stream, added = random_stream(4, post=True, scaled=False)
    >>> stream.shape, added.shape, stream[1:].round(3).tolist()
    ((9,), (8,), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    rng = np.random.default_rng(seed)
    config = BlockConfig(d_model=16, n_heads=2, d_ff=32, positions="none")
    x = rng.normal(size=(8, 16))
    stream, added = [x], []
    for _ in range(depth):
        block = random_block(config, rng, math.sqrt(2 * depth) if scaled else 1)
        sublayers = (
            (block.attention_norm, lambda x, block=block: attention_sublayer(x, block.attention, config)),
            (block.ffn_norm, lambda x, block=block: ffn_sublayer(x, block.ffn, config)),
        )
        for norm, sublayer in sublayers:
            update = sublayer(x if post else normalise(x, norm, config))
            x = normalise(x + update, norm, config) if post else x + update
            stream.append(x)
            added.append(update)
    return tuple(np.sqrt((np.array(states) ** 2).mean(axis=(1, 2))) for states in (stream, added))


def random_block(config, rng, divided_by=1.0):
    """Draw the weights of one block.

    Parameters
    ----------
    config : BlockConfig
    rng : numpy.random.Generator
    divided_by : float
        By what w_o and w_down, which write to the residual stream, are divided.

    Returns
    -------
    BlockParams
        Matrices normal with standard deviation 1/√d_in, norm weights 1, biases 0.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=3, d_ff=32)
    >>> random_block(config, np.random.default_rng(0)).ffn.w_down.shape
    (32, 12)
    """
    tensors = {}
    for name, shape in block_shapes(config).items():
        if len(shape) == 1:
            tensors[name] = np.full(shape, 1.0 if name.endswith(("weight", "_norm")) else 0.0)
        else:
            root = math.sqrt(shape[0]) * (divided_by if name.endswith(("w_o", "w_down")) else 1)
            tensors[name] = rng.normal(size=shape) / root
    return assemble_block(tensors)


def growth(stream, added, limit):
    """Draw how large a stream is, and what its sublayers add, along its depth.

    Parameters
    ----------
    stream : array [n + 1]
    added : array [n]
    limit : float
        Where the vertical axis ends.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.6)
    ax.plot(range(len(stream)), stream, color=BLUE, linewidth=2, label="the stream")
    ax.plot(range(1, len(stream)), added, ".", color=ORANGE, markersize=4, label="what a sublayer adds")
    ax.set(xlabel="sublayers passed", ylabel="root mean square", xlim=(0, len(stream) - 1), ylim=(0, limit))
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig


def lens(stages, reads, truth, tops, probabilities, right, position=None, stage=None, best=None):
    """Draw what the logit lens reads at every position and after every sublayer.

    Parameters
    ----------
    stages : sequence of str [n]
    reads, truth : sequence of str [T]
        The token at each position, and the one that follows it in the text.
    tops : array of str [n, T]
        The likeliest next token, as the lens reads it.
    probabilities : array [n, T]
        Its probability.
    right : Boolean array [n, T]
        Whether it is the true one.
    position, stage : int, optional
        The cell to frame.
    best : sequence of str [5], optional
        The five likeliest tokens of that cell, written underneath.

    Returns
    -------
    Drawing
        A row for each position and a column for each stage. A cell is blue where its token is right and grey where it
        is not, the stronger the likelier. Frames have the gids row-0 … and column-0 …, the five tokens best-0 ….
    """
    n, T = np.shape(tops)
    fig, ax = canvas(height=0.22 * T + (0.6 if best is None else 0.95))
    for (i, j), top in np.ndenumerate(np.asarray(tops)):
        colour = BLUE if right[i][j] else GREY
        ax.add_patch(Rectangle((i, j), 1, 1, color=colour, alpha=opacity(0.75 * probabilities[i][j]), linewidth=0))
        ax.text(i + 0.5, j + 0.52, top, ha="center", va="center", fontsize=FONT_SIZE)
    if best is not None:
        for j in range(T):
            _frame(ax, (0, j), n, 1, f"row-{j}", j == position)
        for i in range(n):
            _frame(ax, (i, 0), 1, T, f"column-{i}", i == stage)
        for k, text in enumerate(best):
            ax.text((k + 0.5) * n / 5, T + 1.0, text, ha="center", va="center", fontsize=FONT_SIZE, gid=f"best-{k}")
    ax.set(xlim=(0, n), ylim=(T if best is None else T + 1.6, 0))
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(n) + 0.5, stages)
    ax.xaxis.set_ticks_position("top")
    ax.set_title("read from the stream after", fontsize=FONT_SIZE)
    ax.set_yticks(np.arange(T) + 0.5, reads)
    ax.set_ylabel("token read", fontsize=FONT_SIZE)
    twin = ax.twinx()
    twin.set(ylim=ax.get_ylim())
    twin.set_yticks(np.arange(T) + 0.5, truth)
    twin.tick_params(length=0, labelsize=FONT_SIZE)
    twin.spines[:].set_visible(False)
    twin.set_ylabel("true next token", fontsize=FONT_SIZE, rotation=270, va="bottom")
    return fig


def _stages(ax, stages):
    ax.set_xticks(range(len(stages)), stages)
    ax.set_xlabel("E embedding, A attention, F feed-forward network", fontsize=FONT_SIZE)


def _frame(ax, corner, width, height, gid, shown):
    frame = Rectangle(corner, width, height, fill=False, edgecolor=ORANGE, linewidth=2, clip_on=False, gid=gid)
    frame.set_alpha(opacity(shown))
    ax.add_patch(frame)


def _line(ax, y, start, end, boxes, colour, linewidth):
    """Draw a level line with boxes on it, each (middle, text, width); it does not run through them."""
    for middle, text, width in boxes:
        left = middle - width / 2
        ax.plot([start, left], [y, y], color=colour, linewidth=linewidth, zorder=0)
        edge = GREEN if text == "norm" else ORANGE
        ax.add_patch(Rectangle((left, y - 0.3), width, 0.6, fill=False, edgecolor=edge, linewidth=1.5))
        ax.text(middle, y, text, ha="center", va="center", fontsize=FONT_SIZE)
        start = left + width
    ax.plot([start, end], [y, y], color=colour, linewidth=linewidth, zorder=0)


def _way(ax, start, end, boxes):
    """Draw the way from the stream through a sublayer and back, to the add."""
    ax.plot([start, start], [1, 0], color=GREY, linewidth=1.2)
    _line(ax, 0, start, end, boxes, GREY, 1.2)
    ax.plot([end, end], [0, 0.7], color=GREY, linewidth=1.2)
    ax.plot([end], [0.72], "^", color=GREY, markersize=5)
    ax.plot([end], [1], "o", color=BLUE, markerfacecolor="none", markersize=13, markeredgewidth=1.5, zorder=3)
    ax.text(end, 0.99, "+", ha="center", va="center", fontsize=11, weight="bold", zorder=4)
