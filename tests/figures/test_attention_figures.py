import numpy as np
import pytest

from labkit.figures import attention


def test_attention_map_has_queries_down_and_keys_across():
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.2, 0.3]])
    ax = attention.attention_map(weights, query=1, labels=["a", "b", "c"]).axes[0]
    assert "query" in ax.get_ylabel()
    assert "key" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    cells = {patch.get_gid(): patch for patch in ax.patches}
    for i, j in np.ndindex(3, 3):
        cell = cells[f"cell-{3 * i + j}"]
        assert (cell.get_x(), cell.get_y()) == (j, i)
        assert cell.get_alpha() == pytest.approx(weights[i, j], abs=1e-4)
    assert ax.yaxis_inverted()  # the first query is the top row
    assert [cells[f"row-{i}"].get_alpha() > 0.5 for i in range(3)] == [False, True, False]
    written = [text.get_text() for text in ax.texts if text.get_gid()]
    assert written == ["0.25", "0.75", "0.00"]


WEIGHTS = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0], [0.5, 0.194, 0.3, 0.006]])


def placed(ax, name):
    """Return the texts whose gid is name-0, name-1, …: what they read and where they stand, in order."""
    texts = {text.get_gid(): text for text in ax.texts if (text.get_gid() or "").startswith(f"{name}-")}
    assert sorted(texts) == sorted(f"{name}-{i}" for i in range(len(texts)))
    return [(texts[f"{name}-{i}"].get_text(), texts[f"{name}-{i}"].get_position()) for i in range(len(texts))]


def test_token_map_has_queries_down_and_keys_across():
    ax = attention.token_map(WEIGHTS, query=2, labels=["a", "b", "c"], key_labels=["w", "x", "y", "z"]).axes[0]
    assert ax.yaxis_inverted()  # the first query is the top row
    cells = {patch.get_gid(): patch for patch in ax.patches}
    for i, j in np.ndindex(3, 4):
        cell = cells[f"cell-{4 * i + j}"]
        assert (cell.get_x(), cell.get_y()) == (j, i)
        assert cell.get_alpha() == pytest.approx(round(WEIGHTS[i, j], 2), abs=1e-4)
    assert [cells[f"row-{i}"].get_alpha() > 0.5 for i in range(3)] == [False, False, True]
    assert [cells[f"row-{i}"].get_y() for i in range(3)] == [0, 1, 2]
    assert [(text, y) for text, (_, y) in placed(ax, "query")] == [("a", 0.5), ("b", 1.5), ("c", 2.5)]
    assert [(text, x) for text, (x, _) in placed(ax, "key")] == [("w", 0.5), ("x", 1.5), ("y", 2.5), ("z", 3.5)]
    assert [(text, x) for text, (x, _) in placed(ax, "weight")] == [("50", 0.5), ("19", 1.5), ("30", 2.5), ("1", 3.5)]
    named = {text.get_text(): text.get_rotation() for text in ax.texts if not text.get_gid()}
    assert named["query (who looks)"] == 90
    assert named["key (what is looked at)"] == 0
    assert "per cent" in named


def test_token_map_names_keys_as_queries_by_default():
    ax = attention.token_map(np.eye(3), query=0, labels=["a", "b", "c"]).axes[0]
    assert [text for text, _ in placed(ax, "key")] == ["a", "b", "c"]


@pytest.mark.parametrize("T", [3, 16])
def test_token_map_stays_the_same_but_for_its_marks(T):
    rng = np.random.default_rng(0)
    first, second = rng.dirichlet(np.ones(T), size=(2, T))
    drawings = [
        attention.token_map(first, 0, [f"{i} a" for i in range(T)]),
        attention.token_map(second, T - 1, [f"{i} ·which" for i in range(T)]),
    ]
    boxes = [drawing.axes[0].get_position().bounds for drawing in drawings]
    assert boxes[0] == boxes[1]
    assert drawings[0].get_size_inches().tolist() == drawings[1].get_size_inches().tolist()
    for drawing in drawings:
        drawing.draw_without_rendering()
        edge = drawing.bbox
        for text in drawing.axes[0].texts:
            box = text.get_window_extent()
            assert edge.x0 <= box.x0
            assert box.x1 <= edge.x1
            assert edge.y0 <= box.y0
            assert box.y1 <= edge.y1


def test_token_map_labels_do_not_touch_the_axis_names():
    drawing = attention.token_map(np.eye(16), 3, [f"{10 + i % 6} ·which" for i in range(16)])
    drawing.draw_without_rendering()
    texts = drawing.axes[0].texts
    box = {text.get_gid() or text.get_text(): text.get_window_extent() for text in texts}
    assert all(box["query (who looks)"].x1 < box[f"query-{i}"].x0 for i in range(16))
    assert all(box["key (what is looked at)"].y0 > box[f"key-{i}"].y1 for i in range(16))
    assert all(box[f"key-{i}"].x1 < box[f"key-{i + 1}"].x0 for i in range(15))
    assert all(box[f"weight-{i}"].x1 < box[f"weight-{i + 1}"].x0 for i in range(15))


def test_what_an_explorer_sets_on_a_token_map():
    assert attention.per_cent(WEIGHTS, 2) == ["50", "19", "30", "1"]
    assert attention.shades(WEIGHTS.astype(np.float32))[2].tolist() == [0.5, 0.19, 0.3, 0.01]
    assert attention.token_labels(["He", " was", " "]) == ["0 He", "1 ·was", "2 ·"]
    assert attention.token_labels(["He"], length=3) == ["0 He", "", ""]
    assert attention.token_labels(["He", "y"], length=1) == ["0 He", "1 y"]


def test_worked_shows_one_query_from_scores_to_output():
    scores = np.array([[3, 0, 3], [-3, 2, 4], [1, 0, 3]])
    scaled = np.where(np.tri(3) > 0, scores / 2, -np.inf)
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.2, 0.3]])
    values = np.array([[1.0, 1.0], [5.0, 2.0], [2.0, 5.0]])
    left, right = attention.worked(scores, scaled, weights, values, query=1).axes
    cells = {patch.get_gid(): patch for patch in left.patches}
    assert [cells[f"cell-{i}"].get_alpha() for i in range(9)] == pytest.approx(weights.ravel(), abs=1e-4)
    assert [cells[f"row-{i}"].get_alpha() > 0.5 for i in range(3)] == [False, True, False]
    texts = [text.get_text() for text in left.texts]
    steps = ["q · k", "−3", "2", "4", "scaled", "−1.50", "1.00", "−∞", "weight", "0.25", "0.75", "0.00"]
    assert texts[: len(steps)] == steps
    assert "query (who looks)" in texts
    assert "key" in left.get_xlabel()
    out = right.lines[0].get_xydata()[0]
    assert out == pytest.approx([0.25 * 1 + 0.75 * 5, 0.25 * 1 + 0.75 * 2])
    triangle, *circles = right.patches
    assert np.allclose(triangle.get_xy()[:3], values)
    assert [tuple(circle.center) for circle in circles] == [tuple(value) for value in values]
    radii = [circle.radius for circle in circles]
    assert radii[1] > radii[0] > radii[2] > 0
    assert [text.get_text() for text in right.texts] == ["v0", "v1", "v2", "output 1"]


def test_soft_lookup_plots_its_curves_and_what_is_stored():
    angles = np.array([0, 90, 180, 270, 360])
    curves = {1: angles / 100, 16: angles / 50}
    fig = attention.soft_lookup(angles, curves, {"north": 2.0, "east": 8.0, "south": 22.0, "west": 12.0})
    ax = fig.axes[0]
    for line, curve in zip(ax.lines, curves.values(), strict=False):
        assert np.array_equal(line.get_xdata(), angles)
        assert np.array_equal(line.get_ydata(), curve)
    stored = ax.lines[-1]
    assert stored.get_xdata().tolist() == [0, 90, 180, 270, 360]
    assert stored.get_ydata().tolist() == [2, 8, 22, 12, 2]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["north", "east", "south", "west", "north"]
    assert "°C" in ax.get_ylabel()
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    assert legend == ["query of length 1", "query of length 16", "stored"]


def test_mixing_fills_what_moves_with_outputs_down_and_inputs_across():
    grids = {"none": np.eye(3, dtype=bool), "causal": np.tri(3, dtype=bool), "all": np.ones((3, 3), dtype=bool)}
    axes = [ax for ax in attention.mixing(grids).axes if ax.get_title()]
    assert [ax.get_title() for ax in axes] == list(grids)
    for ax, grid in zip(axes, grids.values(), strict=True):
        assert ax.yaxis_inverted()
        filled = {patch.get_xy() for patch in ax.patches if patch.get_fill()}
        assert filled == {(s, t) for t, s in zip(*np.nonzero(grid), strict=True)}
    assert axes[0].get_ylabel() == "output row"
    assert axes[2].get_xlabel() == "input row moved"


def test_preferences_places_each_pronoun_and_their_mean():
    he, she = np.array([0.1, 0.02, -0.03]), np.array([-0.08, 0.02, 0.05])
    fig = attention.preferences(["0, 0", "0, 1", "1, 0"], he, she)
    ax = fig.axes[0]
    drawn = {line.get_label(): line for line in ax.lines}
    assert drawn["texts with “he”"].get_xdata().tolist() == he.tolist()
    assert drawn["texts with “she”"].get_xdata().tolist() == she.tolist()
    assert drawn["mean of the two"].get_xdata() == pytest.approx([0.01, 0.02, 0.01])
    assert all(line.get_ydata().tolist() == [0, 1, 2] for name, line in drawn.items() if "texts" in name)
    assert ax.yaxis_inverted()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0, 0", "0, 1", "1, 0"]
    assert "minus" in ax.get_xlabel()
