import numpy as np
import pytest

from labkit.figures import birth
from labkit.trained import followers

LOG = [
    {"step": 0, "loss": None, "held_out": 4.0, "induction": 0.02},
    {"step": 150, "loss": 3.0, "held_out": 2.5, "induction": 0.5},
    {"step": 2000, "loss": 1.4, "held_out": 1.5, "induction": 0.9},
]
TOKENS = np.array([7, 5, 3, 7, 5, 3])
WEIGHTS = np.tril(np.arange(36.0).reshape(6, 6) / 36)


def patches(ax):
    return {patch.get_gid(): patch for patch in ax.patches if patch.get_gid()}


def test_progress_draws_loss_and_score_over_the_steps():
    above, below = birth.progress(LOG, ignorant=4.1).axes
    loss, guess = above.lines
    np.testing.assert_array_equal(loss.get_xydata(), [[0, 4.0], [150, 2.5], [2000, 1.5]])
    assert set(guess.get_ydata()) == {4.1}
    np.testing.assert_array_equal(below.lines[0].get_xydata(), [[0, 0.02], [150, 0.5], [2000, 0.9]])


def test_shared_work_draws_two_bars_a_query():
    weights = np.array([[0.9, 0.1, 0.3], [0.05, 0.8, 0.6]])
    ax = birth.shared_work(weights, ["b", "c", "d"]).axes[0]
    heads = [[bar.get_height() for bar in bars] for bars in ax.containers]
    np.testing.assert_array_equal(heads, weights)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["b", "c", "d"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["head 0", "head 1"]


def test_birth_shows_every_weight_as_the_opacity_of_its_cell():
    ax = birth.birth(WEIGHTS, TOKENS, LOG, kept=(0, 150, 2000), step=150).axes[1]
    for at, weight in enumerate(WEIGHTS.ravel()):
        cell = patches(ax)[f"cell-{at}"]
        assert cell.get_alpha() == pytest.approx(weight, abs=1e-4)
        assert cell.get_xy() == (at % 6, at // 6)


def test_birth_frames_the_cells_where_an_induction_head_looks():
    ax = birth.birth(WEIGHTS, TOKENS, LOG, kept=(0, 150), step=0).axes[1]
    framed = {patch.get_xy() for patch in ax.patches if not patch.get_fill()}
    assert framed == {(1, 3), (2, 4), (3, 5)}
    assert framed == {(j, i) for i, j in np.argwhere(followers(TOKENS))}


@pytest.mark.parametrize("step", [0, 150, 2000])
def test_birth_points_at_the_step_on_the_curve(step):
    above = birth.birth(WEIGHTS, TOKENS, LOG, kept=(0, 150, 2000), step=step).axes[0]
    np.testing.assert_array_equal(above.lines[0].get_xydata(), [[0, 4.0], [150, 2.5], [2000, 1.5]])
    pointers = {text.get_gid(): text for text in above.texts}
    for at, entry in enumerate(LOG):
        pointer = pointers[f"now-{at}"]
        assert pointer.get_position() == (entry["step"], entry["held_out"])
        assert pointer.get_alpha() == pytest.approx(float(entry["step"] == step), abs=1e-4)
