"""The pictures of chapter 2."""

import numpy as np
from matplotlib.patches import Circle, Polygon, Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, WIDTH, canvas, opacity

_FRAME = {"fill": False, "edgecolor": ORANGE, "linewidth": 2, "clip_on": False}


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
    _cells(ax, weights, query)
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


def token_map(weights, query, labels, key_labels=None):
    """Draw the attention map of a sentence, small enough for 16 tokens on a phone.

    Everything that differs from one sentence, head or query to the next is a mark: an explorer can set it from numbers.

    Parameters
    ----------
    weights : array [T, S]
        Attention weights.
    query : int
        The row to frame, and whose weights are written out under the map, in per cent.
    labels : sequence of str
        What each query is called; at most 9 characters fit.
    key_labels : sequence of str, optional
        What each key is called. Default: as the queries.

    Returns
    -------
    Drawing
        The cells have the gids cell-0, cell-1, … row by row, and their opacities are `shades(weights)`; the frames of
        the rows are row-0, …; the written weights, `per_cent(weights, query)`, weight-0, …; the labels query-0, …
        and key-0, ….
    """
    T, S = np.shape(weights)
    key_labels = labels if key_labels is None else key_labels
    left, top, bottom = 0.95, 0.95, 0.3  # inches; fixed, since the page cannot make room for another sentence
    side = (WIDTH - left - 0.05) / S
    height = top + T * side + bottom
    fig, ax = canvas(height=height)
    fig.set_layout_engine("none")
    ax.set_position([left / WIDTH, bottom / height, S * side / WIDTH, T * side / height])
    ax.set(xlim=(0, S), ylim=(T, 0))
    ax.set_axis_off()
    lines = {"color": GREY, "linewidth": 0.5, "alpha": 0.35}
    ax.vlines(np.arange(S + 1), 0, T, **lines)
    ax.hlines(np.arange(T + 1), 0, S, **lines)
    _cells(ax, shades(weights), query)
    near, under = 0.05 / side, T + 0.15 / side  # 0.05 and 0.15 inches
    text = {"fontsize": FONT_SIZE, "va": "center"}
    for i, label in enumerate(labels):
        ax.text(-near, i + 0.5, label, ha="right", gid=f"query-{i}", **text)
    for j, label in enumerate(key_labels):
        ax.text(j + 0.5, -near, label, ha="center", rotation=90, gid=f"key-{j}", fontsize=FONT_SIZE, va="bottom")
    for j, share in enumerate(per_cent(weights, query)):
        ax.text(j + 0.5, under, share, ha="center", gid=f"weight-{j}", **text)
    ax.text(-near, under, "per cent", ha="right", **text)
    ax.text(-0.87 / side, T / 2, "query (who looks)", rotation=90, ha="center", **text)
    ax.text(S / 2, -0.85 / side, "key (what is looked at)", ha="center", **text)
    return fig


def shades(weights):
    """Return the opacities of `token_map`'s cells: the weights to two decimals, which keeps a page small.

    Examples
    --------
    >>> shades(np.array([[0.256, 0.744]], dtype=np.float32)).tolist()
    [[0.26, 0.74]]
    """
    return np.round(np.asarray(weights, dtype=float), 2)


def per_cent(weights, query):
    """Return one query's weights as they are written under `token_map`: whole per cents.

    Examples
    --------
    >>> per_cent(np.array([[0.256, 0.744]]), query=0)
    ['26', '74']
    """
    return [f"{100 * weight:.0f}" for weight in weights[query]]


def token_labels(tokens, length=None):
    """Return what tokens are called on the axes of a map: the position, and the token with its space made visible.

    Parameters
    ----------
    tokens : sequence of str
    length : int, optional
        How many labels to return; those past the end are empty.

    Returns
    -------
    list of str

    Examples
    --------
    >>> token_labels(["He", " was"], length=3)
    ['0 He', '1 ·was', '']
    """
    labels = [f"{at} {token.replace(' ', '·')}" for at, token in enumerate(tokens)]
    return labels + [""] * ((length or 0) - len(labels))


def worked(scores, scaled, weights, values, query):
    """Draw one query's way from scores to output: its row of the map, the steps under it, and the mean of the values.

    Parameters
    ----------
    scores : array [T, S]
        The dot products q · k.
    scaled : array [T, S]
        The same after scaling and masking: −∞ where a query may not look.
    weights : array [T, S]
    values : array [S, 2]
        One point of the plane for each key.
    query : int

    Returns
    -------
    Drawing
        The map is in the first axes, the plane of the values in the second.
    """
    T, S = np.shape(weights)
    fig, (left, right) = canvas(height=2.9, ncols=2)
    _cells(left, weights, query)
    text = {"fontsize": FONT_SIZE, "ha": "center", "va": "center"}
    steps = [("q · k", scores, "{:.0f}"), ("scaled", scaled, "{:.2f}"), ("weight", weights, "{:.2f}")]
    for line, (name, numbers, form) in enumerate(steps):
        at = T + 0.45 + 0.5 * line
        left.text(-0.1, at, name, fontsize=FONT_SIZE, ha="right", va="center")
        for j, number in enumerate(numbers[query]):
            left.text(j + 0.5, at, "−∞" if np.isneginf(number) else form.format(number).replace("-", "−"), **text)
    left.set_xticks(np.arange(S) + 0.5, [f"k{j}" for j in range(S)])
    left.set_yticks(np.arange(T) + 0.5, [f"q{i}" for i in range(T)])
    left.text(-0.9, T / 2, "query (who looks)", fontsize=FONT_SIZE, rotation=90, ha="center", va="center")
    left.set(xlim=(0, S), ylim=(T + 1.8, 0), xlabel="key (what is looked at)")
    left.xaxis.set(label_position="top", ticks_position="top")
    left.spines[["left", "bottom"]].set_visible(False)
    left.tick_params(length=0)
    left.set_aspect("equal")
    _plane(right, weights[query], np.asarray(values), f"output {query}")
    return fig


def soft_lookup(angles, curves, values):
    """Draw what a soft dictionary of compass directions returns, over the direction that it is asked for.

    Parameters
    ----------
    angles : array [n]
        Directions in degrees, clockwise from north.
    curves : dict of float to array [n]
        For each length of the query, what the dictionary returns.
    values : dict of str to float
        What is stored for north, east, south and west, in this order.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.7)
    for color, (length, returned) in zip((GREY, GREEN, BLUE, ORANGE), curves.items(), strict=False):
        ax.plot(angles, returned, color=color, label=f"query of length {length:g}")
    stops = 90 * np.arange(len(values) + 1)
    stored = [*values.values(), next(iter(values.values()))]
    ax.plot(stops, stored, "o", color="black", label="stored")
    ax.set_xticks(stops, [*values, next(iter(values))])
    ax.set(xlabel="direction asked for", ylabel="returned, in °C")
    fig.legend(fontsize=FONT_SIZE, loc="outside upper center", ncols=3, frameon=False)
    return fig


def mixing(moved):
    """Draw, for several operations, which output rows move when one input row does.

    Parameters
    ----------
    moved : dict of str to Boolean array [T, T]
        For each operation: [t, s] is True where output row t moves when input row s does.

    Returns
    -------
    Drawing
        One axes for each operation. A cell that moves is filled.
    """
    columns = -(-len(moved) // 2)
    fig, axes = canvas(height=3.4, nrows=2, ncols=columns)
    for ax in axes.ravel():
        ax.set_axis_off()
    for at, (ax, (name, grid)) in enumerate(zip(axes.ravel(), moved.items(), strict=False)):
        T = len(grid)
        ax.set_axis_on()
        for t, s in np.ndindex(T, T):
            style = {"facecolor": BLUE} if grid[t, s] else {"fill": False}
            ax.add_patch(Rectangle((s, t), 1, 1, edgecolor=GREY, linewidth=0.7, clip_on=False, **style))
        ax.set(xlim=(0, T), ylim=(T, 0), aspect="equal")
        ax.set_xticks(np.arange(T) + 0.5, range(T))
        ax.set_yticks(np.arange(T) + 0.5, range(T))
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set_title(name, fontsize=FONT_SIZE)
        ax.set_ylabel("output row" if at % columns == 0 else "", fontsize=FONT_SIZE)
        ax.set_xlabel("input row moved" if at >= columns else "", fontsize=FONT_SIZE)
    return fig


def preferences(heads, he, she):
    """Draw how much more weight each head gives to the name that fits a pronoun than to the one that does not.

    Parameters
    ----------
    heads : sequence of str
        What each head is called.
    he, she : array [n]
        For each head the mean weight on the name that fits minus that on the other, in texts that go on with each
        pronoun.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=3.3)
    rows = np.arange(len(heads))
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.plot(he, rows, "o", color=BLUE, markersize=5, label="texts with “he”")
    ax.plot(she, rows, "s", color=ORANGE, markersize=5, label="texts with “she”")
    ax.plot((np.asarray(he) + she) / 2, rows, "|", color="black", markersize=10, label="mean of the two")
    ax.set_yticks(rows, heads)
    ax.set_ylim(len(heads) - 0.5, -0.5)
    ax.set(xlabel="weight on the name that fits, minus weight on the other name", ylabel="layer, head")
    fig.legend(fontsize=FONT_SIZE, loc="outside upper center", ncols=3, frameon=False)
    return fig


def draw_cells(ax, weights):
    """Draw the cells of a map [T, S], with the weights as their opacities and the gids cell-0, cell-1, … row by row."""
    S = np.shape(weights)[1]
    for at, weight in enumerate(np.ravel(weights)):
        i, j = divmod(at, S)
        ax.add_patch(Rectangle((j, i), 1, 1, color=BLUE, linewidth=0, alpha=opacity(weight), gid=f"cell-{at}"))


def _cells(ax, weights, query):
    """Draw the cells of a map and the frames of its rows, of which only the chosen one is seen."""
    T, S = np.shape(weights)
    draw_cells(ax, weights)
    for i in range(T):
        ax.add_patch(Rectangle((0, i), S, 1, alpha=opacity(i == query), gid=f"row-{i}", **_FRAME))


def _plane(ax, shares, values, name):
    """Draw values as points of a plane, each as large as its weight, and their weighted mean among them."""
    ax.add_patch(Polygon(values, facecolor=GREY, alpha=0.15, linewidth=0))
    for j, (share, value) in enumerate(zip(shares, values, strict=True)):
        ax.add_patch(Circle(value, 0.08 + 0.5 * share, color=BLUE, linewidth=0, alpha=0.8))
        ax.annotate(f"v{j}", value, (0, -16), textcoords="offset points", ha="center", fontsize=FONT_SIZE)
    out = shares @ values
    ax.plot(*out, "X", color=ORANGE, markersize=9, markeredgecolor="white")
    ax.annotate(name, out, (0, 8), textcoords="offset points", ha="center", fontsize=FONT_SIZE)
    ax.set(xlabel="first number of a value", ylabel="second number of a value", aspect="equal")
    low, high = values.min(axis=0) - 1, values.max(axis=0) + 1
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
