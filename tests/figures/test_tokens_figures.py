import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from labkit.figures import tokens
from labkit.figures.canvas import BLUE, ORANGE

STAGES = [[b" ", b"a", b"n", b"d"], [b" ", b"a", b"nd"], [b" a", b"nd"]]


def boxes(ax):
    """Return the row, the first and last byte, and the colour of each box."""
    found = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    ends = [(round(b.get_y() - 0.1), round(b.get_x()), round(b.get_x() + b.get_width())) for b in found]
    return {end: b.get_facecolor() for end, b in zip(ends, found, strict=True)}


def test_merging_draws_a_box_for_each_token_as_wide_as_its_bytes():
    (ax,) = tokens.merging(STAGES, [258, 268]).axes
    expected = [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4), (1, 0, 1), (1, 1, 2), (1, 2, 4), (2, 0, 2), (2, 2, 4)]
    assert list(boxes(ax)) == expected
    assert ax.yaxis_inverted()  # the bytes on top


def test_merging_marks_what_a_merge_has_just_made():
    (ax,) = tokens.merging(STAGES, [258, 268]).axes
    made = [end for end, colour in boxes(ax).items() if colour[:3] == to_rgb(ORANGE)]
    assert made == [(1, 2, 4), (2, 0, 2)]
    assert sum(colour[:3] == to_rgb(BLUE) for colour in boxes(ax).values()) == 7


def test_merging_writes_tokens_counts_and_ids():
    (ax,) = tokens.merging(STAGES, [258, 268]).axes
    written = {text.get_text(): text.get_position() for text in ax.texts}
    assert written["␣a"] == pytest.approx((1, 2.5))
    assert (written["258"][0], written["268"][0]) == pytest.approx((1, 3))
    assert [text.get_text() for text in ax.texts if text.get_position()[0] > 4] == ["4", "3", "2"]


def test_merging_refuses_ids_that_do_not_fit_the_last_row():
    with pytest.raises(ValueError, match="shorter"):
        tokens.merging(STAGES, [258])
