import numpy as np
import pytest
from matplotlib.colors import to_hex

from labkit.figures import embedding
from labkit.figures.canvas import BLUE, GREY, ORANGE


def drawn(ax):
    return {patch.get_gid(): patch for patch in ax.patches if patch.get_gid()}


def colour(patch):
    return to_hex(patch.get_facecolor())


def test_gather_draws_every_entry_and_colours_the_rows_that_are_taken():
    cells = drawn(embedding.gather([4, 0, 2], vocab_size=6, d_model=5).axes[0])
    rows = [f"table-{i}" for i in range(6)] + ["x-0", "x-1", "x-2"]
    assert set(cells) == {f"{row}-{column}" for row in rows for column in range(5)}
    for column in range(5):
        taken = [colour(cells[f"x-{t}-{column}"]) for t in range(3)]
        assert taken == [colour(cells[f"table-{i}-{column}"]) for i in (4, 0, 2)]
        assert len({*taken, GREY}) == 4
        assert {colour(cells[f"table-{i}-{column}"]) for i in (1, 3, 5)} == {GREY}
        assert cells[f"x-1-{column}"].get_x() - cells["x-1-0"].get_x() == column


def test_gather_keeps_the_order_of_the_text_and_leads_each_row_to_its_place():
    ax = embedding.gather([4, 0, 2], vocab_size=6, d_model=5).axes[0]
    cells = drawn(ax)
    tops = [cells[f"x-{t}-0"].get_y() for t in range(3)]
    assert tops == sorted(tops)
    assert ax.yaxis_inverted()
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None)]
    for t, (token, arrow) in enumerate(zip([4, 0, 2], arrows, strict=True)):
        assert arrow.xyann[1] == pytest.approx(cells[f"table-{token}-0"].get_y() + 0.5)
        assert arrow.xy[1] == pytest.approx(cells[f"x-{t}-0"].get_y() + 0.5)
    assert [text.get_text() for text in ax.texts if text.get_text().startswith("id")] == ["id 4", "id 0", "id 2"]


def test_similarity_draws_each_pair_in_its_place():
    cosines = np.array([[1.0, 0.4, -0.3], [0.4, 1.0, 0.0], [-0.3, 0.0, 1.0]])
    ax = embedding.similarity(["a", "b", "c"], cosines).axes[0]
    cells = drawn(ax)
    for at in range(9):
        i, j = divmod(at, 3)
        assert (cells[f"cell-{at}"].get_x(), cells[f"cell-{at}"].get_y()) == (j, i)
        assert cells[f"cell-{at}"].get_alpha() == pytest.approx(abs(cosines[i, j]), abs=1e-3)
    assert colour(cells["cell-1"]) == BLUE
    assert colour(cells["cell-2"]) == ORANGE
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert ax.yaxis_inverted()


def test_similarity_takes_cosines_that_rounding_put_above_one():
    cells = drawn(embedding.similarity(["a"], np.array([[1 + 1e-7]])).axes[0])
    assert cells["cell-0"].get_alpha() == 1


def test_neighbours_draws_the_nearest_on_top():
    ax = embedding.neighbours("␣Mr", [("␣Mrs", 0.92), ("␣Miss", 0.49)]).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [0.92, 0.49]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["␣Mrs", "␣Miss"]
    assert ax.yaxis_inverted()
    assert "␣Mr" in ax.get_xlabel()
    assert set(ax.lines[0].get_xdata()) == {1 / np.sqrt(64)}


def test_shares_draws_percent_and_writes_them():
    ax = embedding.shares(["small", "large"], [0.31, 0.052]).axes[0]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [31, 5.2])
    assert [text.get_text() for text in ax.texts] == ["31.0%", "5.2%"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["small", "large"]
    assert ax.get_xlim() == (0, 100)
