import numpy as np
import pytest
from matplotlib.colors import to_hex

from labkit.figures import mask
from labkit.figures.canvas import BLUE, RED
from labkit.mask import causal_mask, to_additive


def filled(ax):
    """Return the opacity of each filled cell by its row and column, which must be where its name says."""
    cells = {}
    for patch in ax.patches:
        if patch.get_gid():
            i, j = map(int, patch.get_gid().split("-")[2:])
            assert (patch.get_x(), patch.get_y()) == (j, i)
            cells[i, j] = patch.get_alpha()
    assert ax.yaxis_inverted()  # the first query is the top row
    return cells


def test_mask_and_weights_write_both_tables():
    weights = np.array([[1.0, 0.0], [0.25, 0.75]])
    left, right = mask.mask_and_weights(to_additive(causal_mask(2)), weights).axes
    assert [text.get_text() for text in left.texts] == ["0", "−∞", "0", "0"]
    assert [text.get_text() for text in right.texts] == ["1.00", "0.00", "0.25", "0.75"]
    assert list(filled(left)) == [(0, 1)]
    assert filled(right) == {(0, 0): 1, (1, 0): 0.25, (1, 1): 0.75}
    for ax in (left, right):
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")


def test_the_changed_column_is_framed_and_earlier_outputs_are_red():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7]])
    moved = np.array([0.3, 0.0, 2.0])
    fig = mask.changed_outputs(weights, moved, changed=1, labels=["a", "b", "c"], limit=2.5)
    left, right = fig.axes
    assert filled(left) == {(i, j): weight for (i, j), weight in np.ndenumerate(weights) if weight}
    frame = next(patch for patch in left.patches if not patch.get_gid())
    assert (frame.get_x(), frame.get_width(), frame.get_height()) == (1, 1, 3)
    assert [text.get_text() for text in left.get_yticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], moved)
    np.testing.assert_allclose([bar.get_y() + bar.get_height() / 2 for bar in right.patches], [0.5, 1.5, 2.5])
    assert [to_hex(bar.get_facecolor()) for bar in right.patches] == [RED, BLUE, BLUE]
    assert right.lines[0].get_ydata()[0] == 1  # the line that divides past from future
    assert right.get_xlim() == (0, 2.5)


@pytest.mark.parametrize("n", [3, 4])
def test_grids_fill_what_is_true(n):
    rng = np.random.default_rng(n)
    tables = [rng.random((3, 5)) < 0.5 for _ in range(n)]
    fig = mask.grids([f"table {i}" for i in range(n)], tables, down="output", across="changed input")
    assert [ax.get_title() for ax in fig.axes] == [f"table {i}" for i in range(n)]
    for ax, table in zip(fig.axes, tables, strict=True):
        assert sorted(filled(ax)) == [tuple(at) for at in np.argwhere(table)]
        assert ax.get_xlabel() == "changed input"
    assert [ax.get_ylabel() for ax in fig.axes] == ["output"] + [""] * (n - 1)


def test_training_curves_draw_held_out_losses():
    logs = {
        "good": [{"step": 0, "held_out": 6.0, "loss": None}, {"step": 50, "held_out": 3.0, "loss": 1.0}],
        "bad": [{"step": 0, "held_out": 6.1, "loss": None}, {"step": 50, "held_out": 0.1, "loss": 0.5}],
    }
    ax = mask.training_curves(logs, ignorant=6.2).axes[0]
    good, bad, ignorant = ax.lines
    np.testing.assert_allclose(good.get_xydata(), [[0, 6], [50, 3]])
    np.testing.assert_allclose(bad.get_xydata(), [[0, 6.1], [50, 0.1]])
    assert ignorant.get_ydata()[0] == 6.2
    assert {text.get_text() for text in ax.texts} == {"good", "bad", "knows nothing"}


def test_token_losses_draw_one_line_a_model():
    series = {"a": np.array([1.0, 2.5]), "b": np.array([0.0, 0.1]), "c": np.array([9.0, 4.0])}
    ax = mask.token_losses(["iss", " B"], series).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["iss", "·B"]
    for line, (name, losses) in zip(ax.lines, series.items(), strict=True):
        assert line.get_label() == name
        np.testing.assert_array_equal(line.get_ydata(), losses)
