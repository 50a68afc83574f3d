import itertools

import numpy as np
import pytest

from labkit.figures import heads
from labkit.figures.canvas import BLUE, GREY


def test_flow_draws_every_matrix_in_its_shape():
    T, d_model, n_heads = 4, 6, 2
    ax = heads.flow(T, d_model, n_heads).axes[0]
    drawn = {patch.get_gid(): patch for patch in ax.patches}
    each = {f"{name}-{h}" for name in ("Q", "K", "V", "map", "out", "concat") for h in range(n_heads)}
    assert set(drawn) == {"X", "output", *each}
    for gid, patch in drawn.items():
        name = gid.partition("-")[0]
        width = {"X": d_model, "output": d_model, "map": T}.get(name, d_model // n_heads)
        assert (patch.get_width(), patch.get_height()) == (width, T), gid


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_flow_puts_heads_side_by_side_and_in_their_colours(n_heads):
    ax = heads.flow(4, 6, n_heads).axes[0]
    drawn = {patch.get_gid(): patch for patch in ax.patches}
    for name in ("Q", "K", "V", "concat"):
        bands = [drawn[f"{name}-{h}"] for h in range(n_heads)]
        for left, right in itertools.pairwise(bands):
            assert right.get_x() == pytest.approx(left.get_x() + left.get_width())
            assert right.get_y() == left.get_y()
    for h in range(n_heads):
        colours = {drawn[f"{name}-{h}"].get_facecolor() for name in ("Q", "K", "V", "map", "out", "concat")}
        assert len(colours) == 1
    assert len({drawn[f"map-{h}"].get_facecolor() for h in range(n_heads)}) == n_heads


def test_flow_boxes_do_not_overlap():
    patches = heads.flow(4, 6, 3).axes[0].patches
    for i, a in enumerate(patches):
        for b in patches[:i]:
            apart_x = a.get_x() >= b.get_x() + b.get_width() - 1e-9 or b.get_x() >= a.get_x() + a.get_width() - 1e-9
            apart_y = a.get_y() >= b.get_y() + b.get_height() - 1e-9 or b.get_y() >= a.get_y() + a.get_height() - 1e-9
            assert apart_x or apart_y, (a.get_gid(), b.get_gid())


def test_favourites_draws_counts_over_widths_and_the_number_of_keys():
    ax = heads.favourites([1, 2, 8], [2, 9, 60], n_keys=64).axes[0]
    limit, curve = ax.lines
    np.testing.assert_array_equal(curve.get_xydata(), [[1, 2], [2, 9], [8, 60]])
    assert set(limit.get_ydata()) == {64}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "8"]
    assert ax.get_ylim()[1] > 64
    assert "d_head" in ax.get_xlabel()


def test_costs_draws_a_bar_for_each_kind_in_order():
    ax = heads.costs(["projections", "scores", "exponentials"], [3e9, 2e7, 5e5], largest=1e12).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [3e9, 2e7, 5e5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["projections", "scores", "exponentials"]
    assert ax.get_xscale() == "log"
    assert ax.get_xlim()[1] == 1e12
    assert ax.yaxis_inverted()  # the first kind is on top


def test_ablation_draws_the_whole_model_first():
    ax = heads.ablation(["a", "b"], [2.5, 5.0], whole=0.5, ignorant=4.2).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [0.5, 2.5, 5.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["nothing", "a", "b"]
    assert set(ax.lines[0].get_xdata()) == {4.2}
    assert ax.get_xlim()[1] > 5
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] != colours[1] == colours[2]
    assert GREY != BLUE
    assert "nats" in ax.get_xlabel()
