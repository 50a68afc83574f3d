import numpy as np
import pytest

from labkit.figures import norm
from labkit.figures.canvas import BLUE, ORANGE, RED
from labkit.norm import layer_norm, rms_norm

X = np.array([3.0, -1.0, 0.5, 2.0, -0.25])
ONES = np.ones(5)


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


def test_stages_draw_every_step_of_both_norms():
    weight, bias = np.array([2.0, 1.0, 0.5, -1.0, 1.5]), np.array([0.0, 1.0, -1.0, 0.5, 0.0])
    axes = norm.stages(X, weight, bias, eps=0.5).axes
    spread = np.sqrt(X.var() + 0.5)
    expected = [X, X - 0.85, (X - 0.85) / spread, (X - 0.85) / spread * weight + bias]
    root = np.sqrt((X**2).mean() + 0.5)
    expected += [X, [], X / root, X / root * weight]
    for ax, values in zip(axes, expected, strict=True):
        np.testing.assert_allclose(heights(ax), values)
    assert "no mean" in axes[5].texts[0].get_text()
    assert [axes[0].get_ylabel(), axes[4].get_ylabel()] == ["LayerNorm: value", "RMSNorm: value"]
    bottom, top = axes[0].get_ylim()
    assert all(bottom < h < top for ax in axes for h in heights(ax))


def test_moved_shifts_first_and_then_scales():
    np.testing.assert_array_equal(norm.moved(X, 10, -1), [20, -20, -5, 10, -12.5])


@pytest.mark.parametrize(("scale", "shift"), [(0.001, -8), (1, 0), (1000, 8), (10, 2)])
def test_shift_and_scale_draws_given_and_both_results(scale, shift):
    given, layer, rms = norm.shift_and_scale(X, scale, shift).axes
    np.testing.assert_allclose(heights(given), scale * (X + shift))
    for ax, function in ((layer, layer_norm), (rms, rms_norm)):
        np.testing.assert_allclose(heights(ax), function(scale * (X + shift), ONES))
        np.testing.assert_allclose(ax.lines[0].get_ydata(), function(X, ONES))
        assert max(np.abs(heights(ax))) < ax.get_ylim()[1]


def test_depth_draws_one_line_a_kind_with_its_colour():
    streams = {"no norm": [1, 10, 100], "pre-norm": [1, 2, 3], "post-norm": [1, 1, 1]}
    gradients = {"pre-norm, GELU": [4, 2, 1], "post-norm, SwiGLU": [90, 9, 1]}
    fig = norm.depth([0, 8, 16], streams, gradients)
    left, right = fig.axes
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [*streams, *gradients]
    for ax, lines, colours in ((left, streams, [RED, BLUE, ORANGE]), (right, gradients, [BLUE, ORANGE])):
        assert ax.get_yscale() == "log"
        assert [line.get_label() for line in ax.lines] == list(lines)
        assert [line.get_color() for line in ax.lines] == colours
        for line, values in zip(ax.lines, lines.values(), strict=True):
            np.testing.assert_array_equal(line.get_xydata(), np.stack([[0, 8, 16], values], axis=1))
    assert [line.get_linestyle() for line in right.lines] == ["-", "--"]


def test_agreement_draws_what_it_is_given():
    (line,) = norm.agreement(np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.7, 0.3])).axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, 1], [1, 0.7], [3, 0.3]])
