"""The pictures of chapter 7."""

import numpy as np
from matplotlib.patches import Arc

from labkit.figures.canvas import BLUE, FONT_SIZE, GREEN, GREY, ORANGE, RED, canvas


def one_pair(query, key, theta, positions):
    """Draw one pair of a query and of a key, turned to several pairs of positions.

    Parameters
    ----------
    query, key : array [2]
        The pair before it is turned.
    theta : float
        Its frequency, in radians per position.
    positions : sequence of (int, int)
        Query's and key's position, one picture each.

    Returns
    -------
    Drawing
        In each picture an arrow for the query and one for the key, the angle between them (grey), and their dot
        product in the title.
    """
    fig, axes = canvas(ncols=len(positions), height=2.35)
    limit = 1.25 * max(np.hypot(*query), np.hypot(*key))
    for ax, (m, n) in zip(axes, positions, strict=True):
        turned = _turn(query, m * theta), _turn(key, n * theta)
        for end, name, colour in zip(turned, ("q", "k"), (BLUE, ORANGE), strict=True):
            arrow = {"arrowstyle": "->", "color": colour, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", end, (0, 0), arrowprops=arrow)
            ax.text(*(1.15 * end), name, fontsize=FONT_SIZE, ha="center", va="center")
        from_k, to_q = (np.degrees(np.arctan2(y, x)) for x, y in reversed(turned))
        ax.add_patch(Arc((0, 0), 0.7, 0.7, theta1=from_k, theta2=to_q, color=GREY, linewidth=1.5))
        ax.set_title(f"q at {m}, k at {n}\nq·k = {np.dot(*turned):.2f}", fontsize=FONT_SIZE)
        _cross(ax, limit)
        ax.set_xlabel("first entry")
    axes[0].set_ylabel("second entry")
    return fig


def ladder(freqs, positions):
    """Draw how every pair turns along the positions.

    Parameters
    ----------
    freqs : array [d_head/2]
        Radians per position.
    positions : array [n]
        In rising order.

    Returns
    -------
    Drawing
        One row a pair: the cosine of its angle over the position.
    """
    fig, axes = canvas(nrows=len(freqs), height=0.72 * len(freqs) + 0.4, sharex=True)
    for i, (ax, theta) in enumerate(zip(axes, freqs, strict=True)):
        ax.plot(positions, np.cos(positions * theta), color=BLUE)
        ax.set(ylim=(-1.15, 1.15), xlim=(positions[0], positions[-1]), yticks=(-1, 1))
        ax.set_ylabel("cosine", fontsize=FONT_SIZE)
        ax.set_title(f"pair {i}: θ = {theta:g} radians per position", loc="left", fontsize=FONT_SIZE)
    axes[-1].set_xlabel("position")
    return fig


def circles(x, turned, angles):
    """Draw every pair of a vector as a point on a circle, before and after the rotation.

    Parameters
    ----------
    x, turned : array [d_head]
        The vector and the rotated one. Pairs are neighbours: entries 2i and 2i + 1.
    angles : array [d_head/2]
        By how much each pair was turned, in radians.

    Returns
    -------
    Drawing
        For each pair a circle about 0 through the point, the point before (grey) and after (blue), and the way between
        them (orange): the angle itself or, past a full turn, what is left of it.
    """
    pairs, turned = np.reshape(x, (-1, 2)), np.reshape(turned, (-1, 2))
    fig, axes = canvas(ncols=len(pairs), height=1.85, sharey=True)
    limit = 1.2 * np.hypot(*pairs.T).max()
    for i, (ax, start, end, angle) in enumerate(zip(axes, pairs, turned, angles, strict=True)):
        radius = np.hypot(*start)
        first = np.degrees(np.arctan2(start[1], start[0]))
        rest = np.degrees(angle) % 360
        ax.add_patch(Arc((0, 0), 2 * radius, 2 * radius, color=GREY, linewidth=0.8))
        ax.add_patch(Arc((0, 0), 2 * radius, 2 * radius, angle=first, theta2=rest, color=ORANGE, linewidth=2.5))
        ax.plot(*start, "o", color=GREY)
        ax.plot([0, end[0]], [0, end[1]], "-", color=BLUE, linewidth=1)
        ax.plot(*end, "o", color=BLUE)
        ax.set_title(f"pair {i}", fontsize=FONT_SIZE)
        _cross(ax, limit)
        ax.set_xlabel("first entry")
    axes[0].set_ylabel("second entry")
    return fig


def score_over_offset(scores, query_position, limits, marked=16):
    """Draw the score of a query with keys of one content, over how far back they stand.

    Parameters
    ----------
    scores : array [n]
        The score of the key at offset 0, 1, … before the query.
    query_position : int
        Where the query stands, at least n − 1.
    limits : (float, float)
        The lowest and the highest score on the axis.
    marked : int
        An offset to mark.

    Returns
    -------
    Drawing
        The offset is written under the curve, the key's position above it.
    """
    offsets = np.arange(len(scores))
    fig, ax = canvas(height=2.7)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.plot(offsets, scores, color=BLUE)
    ax.plot(marked, scores[marked], "o", color=ORANGE)
    ax.set(xlim=(0, offsets[-1]), ylim=limits, xlabel="offset: positions from the key to the query")
    ax.set_ylabel("score q·k / √d_k")
    ticks = np.arange(0, len(scores), 64)
    ax.set_xticks(ticks)
    above = ax.secondary_xaxis("top")
    above.set_xticks(ticks, [f"{query_position - tick:,}" for tick in ticks], fontsize=FONT_SIZE)
    above.set_xlabel(f"the key's position (the query's: {query_position:,})", fontsize=FONT_SIZE)
    above.spines["top"].set_visible(False)
    return fig


def wavelength_ladders(names, waves, lengths):
    """Draw the wavelengths of several models' pairs against the length that each was trained on.

    Parameters
    ----------
    names : sequence of str
        What the models are called.
    waves : sequence of arrays [d_head/2]
        Positions for one turn of each pair.
    lengths : sequence of int
        Trained length, in tokens.

    Returns
    -------
    Drawing
        A curve a model, dashed where the wavelength is longer than the trained length.
    """
    fig, ax = canvas(height=2.8)
    for name, wave, length, colour in zip(names, waves, lengths, (BLUE, ORANGE, GREEN), strict=False):
        pairs, longer = np.arange(len(wave)), np.asarray(wave) > length
        ax.plot(pairs[~longer], wave[~longer], color=colour, linewidth=2.5, label=name)
        ax.plot(pairs[longer], wave[longer], color=colour, linestyle="--")
    ax.set(yscale="log", xlabel="pair i", ylabel="wavelength (positions)", xlim=(0, len(waves[0]) - 1))
    ax.minorticks_off()
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="upper left")
    return fig


def past_training(offsets, plain, interpolated, trained):
    """Draw a score over offsets that go past the trained length, with and without interpolation.

    Parameters
    ----------
    offsets, plain, interpolated : array [n]
        Offsets, and the score at each with the frequencies as they were and with slower ones.
    trained : int
        The trained length; the offsets below it are shaded.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.5)
    ax.axvspan(0, trained, color=GREY, alpha=0.2, linewidth=0)
    ax.plot(offsets, plain, color=RED, linewidth=1, label="frequencies as trained")
    ax.plot(offsets, interpolated, color=BLUE, linewidth=1, label="all frequencies halved")
    ax.set(xlim=(0, offsets[-1]), xlabel="offset (positions; grey: seen in training)", ylabel="score")
    ax.legend(fontsize=FONT_SIZE, frameon=False, loc="lower left")
    return fig


def loss_by_position(losses, length, window):
    """Draw the loss over position, in the trained length and past it, as a running mean.

    Parameters
    ----------
    losses : dict of str to array [T]
        The loss at each position under a name for the curve, in nats. The last curve is dotted: the others are to be
        compared with it.
    length : int
        The trained length; what lies past it is left white.
    window : int
        Over how many positions the running mean is taken.

    Returns
    -------
    Drawing
    """
    fig, ax = canvas(height=2.9)
    colours = (RED, ORANGE, GREEN, BLUE)
    for number, (name, values) in enumerate(losses.items()):
        mean = np.convolve(values, np.full(window, 1 / window), mode="valid")
        last = number == len(losses) - 1
        style = {"color": "black", "linestyle": ":"} if last else {"color": colours[number]}
        ax.plot(np.arange(len(mean)) + window / 2, mean, label=name, **style)
    ax.axvspan(0, length, color=GREY, alpha=0.15, linewidth=0)
    ax.text(length - 8, 0.12, "as long as\nin training", ha="right", va="bottom", fontsize=FONT_SIZE)
    ax.set(xlim=(0, len(values)), xlabel="position (tokens)", ylabel="loss (nats a token)")
    ax.set_ylim(bottom=0)
    fig.legend(fontsize=FONT_SIZE, loc="outside upper center", ncols=3, frameon=False)
    return fig


def bands(before, after, factor, trained):
    """Draw what a scaling does to each frequency, over the wavelength that the pair had.

    Parameters
    ----------
    before, after : array [d_head/2]
        Radians per position, without and with scaling.
    factor : float
        How many times longer the context is to become.
    trained : int
        Trained length, in tokens.

    Returns
    -------
    Drawing
        A point a pair, in three colours: kept, slowed by less than the factor, slowed by the factor.
    """
    fig, ax = canvas(height=2.9)
    waves, share = 2 * np.pi / np.asarray(before), np.asarray(after) / before
    for name, chosen, colour in zip(
        ("kept", "in between", "slowed in full"), band(share, factor), (GREEN, ORANGE, BLUE), strict=True
    ):
        ax.plot(waves[chosen], share[chosen], "o", markersize=4, color=colour, label=f"{name}: {chosen.sum()}")
    for length, name in ((trained, "trained"), (trained * factor, "wanted")):
        ax.axvline(length, color=GREY, linewidth=0.9, linestyle=":")
        ax.text(length, 1.09, f" {name}", fontsize=FONT_SIZE, ha="left", va="center")
    ax.set(xscale="log", xlim=(4, 4e7), ylim=(0, 1.15), yticks=(0, 0.5, 1))
    ax.set_xticks([10, 1_000, 100_000, 10_000_000], ["10", "1,000", "100,000", "10,000,000"])
    ax.set(xlabel="wavelength before (positions; dotted: context lengths)", ylabel="new frequency / old")
    ax.minorticks_off()
    fig.legend(fontsize=FONT_SIZE, frameon=False, loc="outside upper center", ncols=3)
    return fig


def band(share, factor):
    """Say which pairs a scaling keeps, slows by less than the factor, and slows by the factor.

    Parameters
    ----------
    share : array [d_head/2]
        New frequency divided by old.
    factor : float
        How many times longer the context is to become.

    Returns
    -------
    kept, between, full : Boolean arrays [d_head/2]
        Each pair is in exactly one.

    Examples
    --------
    >>> [int(chosen.sum()) for chosen in band(np.array([1, 1, 0.5, 0.25]), factor=4)]
    [2, 1, 1]
    """
    kept = np.isclose(share, 1, rtol=1e-9, atol=0)
    full = np.isclose(share, 1 / factor, rtol=1e-9, atol=0) & ~kept
    return kept, ~(kept | full), full


def _turn(pair, angle):
    a, b = pair
    return np.array([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)])


def _cross(ax, limit):
    """Make of axes a plane with 0 in the middle."""
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
    ax.spines[["left", "bottom"]].set_visible(False)
