import numpy as np
import pytest
from matplotlib.text import Annotation

from labkit.figures import rope
from labkit.rope import frequencies, ntk_base, rotate, wavelengths


def points(ax):
    """Return the single points of axes, in the order in which they were drawn."""
    return [line.get_xydata()[0] for line in ax.lines if len(line.get_xdata()) == 1]


def test_one_pair_turns_query_and_key_and_writes_their_product():
    q, k = np.array([0.8, 0.6]), np.array([1.0, 0.2])
    fig = rope.one_pair(q, k, theta=0.5, positions=[(0, 0), (3, 1), (8, 6)])
    for ax, (m, n) in zip(fig.axes, [(0, 0), (3, 1), (8, 6)], strict=True):
        turned = [rotate(x[None], p, [0.5])[0] for x, p in ((q, m), (k, n))]
        arrows = [text for text in ax.texts if isinstance(text, Annotation)]
        np.testing.assert_allclose([arrow.xy for arrow in arrows], turned, atol=1e-12)
        assert ax.get_title() == f"q at {m}, k at {n}\nq·k = {turned[0] @ turned[1]:.2f}"
        assert max(np.abs(turned).ravel()) < ax.get_xlim()[1]
    assert fig.axes[1].get_title().split("\n")[1] == fig.axes[2].get_title().split("\n")[1]


def test_ladder_draws_a_cosine_for_each_pair():
    freqs, positions = frequencies(6, base=300), np.arange(40)
    fig = rope.ladder(freqs, positions)
    for ax, theta in zip(fig.axes, freqs, strict=True):
        np.testing.assert_allclose(ax.lines[0].get_xydata(), np.stack([positions, np.cos(theta * positions)], axis=1))
    assert fig.axes[-1].get_xlabel() == "position"


@pytest.mark.parametrize("position", [0, 2, 900])
def test_circles_show_each_pair_before_and_after(position):
    x = np.random.default_rng(3).normal(size=6)
    angles = position * frequencies(6)
    turned = rotate(x[None], position, frequencies(6), "interleaved")[0]
    fig = rope.circles(x, turned, angles)
    for i, ax in enumerate(fig.axes):
        np.testing.assert_allclose(points(ax), [x[2 * i : 2 * i + 2], turned[2 * i : 2 * i + 2]])
        circle, way = ax.patches
        radius = np.hypot(*x[2 * i : 2 * i + 2])
        assert [circle.width, way.width] == pytest.approx([2 * radius, 2 * radius])
        end = np.radians(way.angle + way.theta2)  # the orange way ends at the blue point
        np.testing.assert_allclose(radius * np.array([np.cos(end), np.sin(end)]), points(ax)[1], atol=1e-9)
        assert way.theta2 == pytest.approx(np.degrees(angles[i]) % 360)


def test_score_over_offset_names_both_offset_and_position():
    scores = np.linspace(2, -1, 257) ** 3
    ax = rope.score_over_offset(scores, 1000, (-4, 9)).axes[0]
    curve = ax.lines[1]
    np.testing.assert_array_equal(curve.get_xydata(), np.stack([np.arange(257), scores], axis=1))
    np.testing.assert_allclose(points(ax), [[16, scores[16]]])
    above = ax.child_axes[0]
    assert [text.get_text() for text in above.get_xticklabels()] == ["1,000", "936", "872", "808", "744"]
    np.testing.assert_array_equal(above.get_xticks(), ax.get_xticks())
    assert "1,000" in above.get_xlabel()


def test_wavelength_ladders_dash_what_is_longer_than_the_context():
    waves = [wavelengths(frequencies(16, base)) for base in (1e4, 5e5)]
    ax = rope.wavelength_ladders(["one", "two"], waves, [400, 30])
    lines = ax.axes[0].lines
    for (within, longer), wave, length in zip((lines[:2], lines[2:]), waves, (400, 30), strict=True):
        np.testing.assert_array_equal(within.get_ydata(), wave[wave <= length])
        np.testing.assert_array_equal(longer.get_ydata(), wave[wave > length])
        np.testing.assert_array_equal(longer.get_xdata(), np.flatnonzero(wave > length))
        assert longer.get_linestyle() == "--"


def test_past_training_draws_two_curves_and_shades_what_was_seen():
    x, plain, halved = np.arange(5) * 10, np.array([1.0, 0, 1, 9, -20]), np.array([1.0, 0.5, 0, 0.5, 1])
    ax = rope.past_training(x, plain, halved, trained=25).axes[0]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), plain)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), halved)
    assert ax.lines[0].get_label() == "frequencies as trained"
    assert (ax.patches[0].get_x(), ax.patches[0].get_width()) == (0, 25)


def test_bands_draws_each_pair_once_in_the_colour_of_its_band():
    before = frequencies(128, 5e5)
    after = frequencies(128, 5e5, {"kind": "llama3", "factor": 8, "original_max_len": 8192})
    fig = rope.bands(before, after, 8, 8192)
    groups = {line.get_label(): line for line in fig.axes[0].lines[:3]}
    assert list(groups) == ["kept: 29", "in between: 6", "slowed in full: 29"]
    drawn = np.concatenate([line.get_xydata() for line in groups.values()])
    np.testing.assert_allclose(drawn, np.stack([wavelengths(before), after / before], axis=1))
    assert [line.get_xdata()[0] for line in fig.axes[0].lines[3:]] == [8192, 8 * 8192]
    low, high = fig.axes[0].get_xlim()
    assert low < wavelengths(before)[0]
    assert wavelengths(before)[-1] < high


def test_band_of_each_rule():
    before = frequencies(16)
    for after, counts in (
        (before / 4, [0, 0, 8]),
        (frequencies(16, ntk_base(16, 1e4, 4)), [1, 6, 1]),
        (before, [8, 0, 0]),
    ):
        chosen = rope.band(after / before, 4)
        assert [int(pairs.sum()) for pairs in chosen] == counts
        np.testing.assert_array_equal(np.sum(chosen, axis=0), 1)
    assert [int(pairs.sum()) for pairs in rope.band(np.ones(3), 1)] == [3, 0, 0]


def test_loss_by_position_draws_running_means_the_last_dotted():
    losses = {"a": np.arange(10.0), "b": np.arange(10.0) ** 2, "c": np.full(10, 3.0)}
    ax = rope.loss_by_position(losses, length=4, window=2).axes[0]
    for line, (name, values) in zip(ax.lines, losses.items(), strict=True):
        assert line.get_label() == name
        np.testing.assert_allclose(line.get_ydata(), [(values[n] + values[n + 1]) / 2 for n in range(9)])
        np.testing.assert_allclose(line.get_xdata(), np.arange(9) + 1)  # at the edge between the two
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-", ":"]
    shaded = ax.patches[0]
    assert (shaded.get_x(), shaded.get_width()) == (0, 4)
