import numpy as np
import pytest

from labkit.figures import model
from labkit.figures.canvas import BLUE, ORANGE
from labkit.model import ModelConfig, count_params

CONFIG = ModelConfig(vocab_size=11, d_model=6, n_layers=5, n_heads=3, d_ff=20, max_len=16)


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_forward_pass_names_the_six_steps_in_order_with_their_shapes():
    ax = model.forward_pass(CONFIG, T=7).axes[0]
    places = {text.get_text(): text.get_position() for text in ax.texts if text.get_text()}
    steps = ["1  embedding", "4  blocks, 5 times", "5  final norm", "6  head", "logits"]
    assert [places[step][1] for step in steps] == sorted(places[step][1] for step in steps)
    assert {"2  positions  [7]", "3  mask  [7, 7]", "attention", "FFN"} <= set(places)
    assert ax.yaxis_inverted()  # the ids are at the top
    shapes = sorted((text.get_position()[1], text.get_text()) for text in ax.texts if text.get_text().startswith("["))
    assert [shape for _, shape in shapes] == ["[7]", "[7, 6]", "[7, 6]", "[7, 6]", "[7, 11]"]
    assert places["attention"][1] < places["FFN"][1]


def test_next_tokens_draws_the_one_that_came_in_orange():
    ax = model.next_tokens(["a", "b", "c"], [0.5, 0.25, 0.125], "b", 0.25).axes[0]
    assert widths(ax) == [0.5, 0.25, 0.125]
    assert [bar.get_facecolor()[:3] == pytest.approx(rgb(ORANGE)) for bar in ax.patches] == [False, True, False]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in ax.texts] == ["0.500", "0.250", "0.125"]
    assert ax.yaxis_inverted()


def test_next_tokens_adds_what_came_if_it_is_not_among_the_likeliest():
    ax = model.next_tokens(["a", "b"], [0.5, 0.25], "z", 0.001).axes[0]
    assert widths(ax) == [0.5, 0.25, 0.001]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "z"]
    assert ax.patches[2].get_facecolor()[:3] == pytest.approx(rgb(ORANGE))


def test_part_bars_are_filled_to_the_shares():
    counts = count_params(CONFIG)
    fig = model.part_bars(counts)
    cells = {patch.get_gid(): patch for patch in fig.axes[0].patches}
    assert len(cells) == len(model.PARTS) * model.CELLS
    for y, part in enumerate(model.PARTS):
        row = [cells[f"cell-{y * model.CELLS + x}"] for x in range(model.CELLS)]
        assert [cell.get_x() for cell in row] == sorted(cell.get_x() for cell in row)
        filled = sum(cell.get_alpha() for cell in row) / model.CELLS
        assert filled == pytest.approx(counts[part] / counts["total"], abs=1e-3)
        assert [cell.get_alpha() for cell in row] == sorted((cell.get_alpha() for cell in row), reverse=True)
    names = [text.get_text() for text in fig.axes[0].get_yticklabels()]
    assert names == ["embedding", "positions", "attention", "FFN", "norms", "head"]
    written = {text.get_gid(): text.get_text() for text in fig.axes[0].texts}
    assert written == {f"count-{y}": f"{counts[part]:,}" for y, part in enumerate(model.PARTS)}


def test_part_cells_fill_one_after_the_other():
    counts = dict.fromkeys(model.PARTS, 0) | {"attention": 5, "head": 95, "total": 100}
    cells = model.part_cells(counts)
    np.testing.assert_allclose(cells[2], [1, 0.25] + 23 * [0])
    np.testing.assert_allclose(cells[5], 23 * [1] + [0.75, 0])
    assert cells[[0, 1, 3, 4]].sum() == 0


def test_rules_draw_the_models_own_behind_each():
    own = np.array([0.5, 0.3, 0.2])
    panels = {"own": own, "greedy": np.array([1.0, 0, 0]), "min-p": np.array([0.6, 0.4, 0]), "top-k": own[::-1]}
    fig = model.rules(["a", "b", "c"], panels)
    assert len(fig.axes) == 6
    for ax, (title, probabilities) in zip(fig.axes, panels.items(), strict=False):
        heights = [bar.get_height() for bar in ax.patches]
        assert ax.get_title() == title
        np.testing.assert_array_equal(heights, [*own, *probabilities])
        assert ax.patches[3].get_facecolor()[:3] == pytest.approx(rgb(BLUE))
    assert [text.get_text() for text in fig.axes[3].get_xticklabels()] == ["a", "b", "c"]
    assert (fig.axes[0].get_ylabel(), fig.axes[3].get_xlabel()) == ("probability", "token")


def test_sampling_draws_before_and_after():
    own, drawn = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.3, 0.0])
    fig = model.sampling(["a", "b", "all others"], own, drawn)
    ax = fig.axes[0]
    np.testing.assert_array_equal(widths(ax), [*own, *drawn])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "all others"]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["the model's own", "drawn from"]
    assert ax.yaxis_inverted()


def rgb(colour):
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
