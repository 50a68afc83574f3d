"""The picture of the page on tokens."""

from matplotlib.patches import Rectangle

from labkit.figures.canvas import BLUE, FONT_SIZE, ORANGE, canvas


def merging(stages, ids):
    """Draw how the bytes of a piece merge into tokens, one merge a row.

    Parameters
    ----------
    stages : list of list of bytes
        The tokens after each merge; the first row is single bytes. Joined, each row is the same piece.
    ids : list of int
        Ids of the last row's tokens, which are written under them.

    Returns
    -------
    Drawing
        A box for each token, as wide as it has bytes. What a merge has just made is orange, a space is drawn as ␣.
    """
    width = len(b"".join(stages[0]))
    fig, ax = canvas(height=0.34 * (len(stages) + 1) + 0.1)
    for row, tokens in enumerate(stages):
        before = set() if row == 0 else set(spans(stages[row - 1]))
        for begin, end in spans(tokens):
            colour = ORANGE if row and (begin, end) not in before else BLUE
            box = {"facecolor": colour, "edgecolor": colour, "alpha": 0.35}
            ax.add_patch(Rectangle((begin + 0.04, row + 0.1), end - begin - 0.08, 0.8, **box))
            name = b"".join(tokens)[begin:end].decode().replace(" ", "␣")
            ax.text((begin + end) / 2, row + 0.5, name, ha="center", va="center", fontsize=FONT_SIZE)
        ax.text(width + 0.3, row + 0.5, f"{len(tokens)}", ha="left", va="center", fontsize=FONT_SIZE)
    for (begin, end), token_id in zip(spans(stages[-1]), ids, strict=True):
        ax.text((begin + end) / 2, len(stages) + 0.4, f"{token_id}", ha="center", va="center", fontsize=FONT_SIZE)
    ax.set(xlim=(0, width + 1), ylim=(len(stages) + 0.8, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return fig


def spans(tokens):
    """Return where each token begins and ends, in bytes.

    Examples
    --------
    >>> spans([b"th", b"e"])
    [(0, 2), (2, 3)]
    """
    ends = [sum(map(len, tokens[: i + 1])) for i in range(len(tokens))]
    return list(zip([0, *ends], ends, strict=False))
