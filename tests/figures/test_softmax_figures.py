import numpy as np
import pytest

from labkit.figures import softmax
from labkit.softmax import random_scores, scores_of_width
from labkit.softmax import saturation as measure
from labkit.softmax import softmax as softmax_of


def heights(ax):
    return [bar.get_height() for bar in ax.patches]


@pytest.mark.parametrize(("d_k", "scaled"), [(1, False), (64, True), (1024, False)])
def test_saturation_draws_one_row_and_two_curves(d_k, scaled):
    left, right = softmax.saturation(d_k, scaled).axes
    np.testing.assert_allclose(heights(left), softmax_of(scores_of_width(d_k, scaled)[0]))
    lines = {line.get_label(): line for line in right.lines}
    for name, largest in (("entropy", np.log(8)), ("largest gradient", 0.25)):
        share = [measure(scores_of_width(width, scaled))[name] / largest for width in softmax.WIDTHS]
        np.testing.assert_allclose(lines[name].get_ydata(), share)
        assert max(share) <= 1
        at = softmax.WIDTHS.index(d_k)
        assert any(np.allclose(line.get_xydata(), [[d_k, share[at]]]) for line in right.lines)


def test_score_spread_draws_a_histogram_and_a_bar_for_each_width():
    rng = np.random.default_rng(1)
    scores = [random_scores(d_k, 500, rng) for d_k in (4, 64)]
    fig = softmax.score_spread([4, 64], scores)
    for ax, d_k, drawn in zip(fig.axes, (4, 64), scores, strict=True):
        assert ax.get_title(loc="left") == f"d_k = {d_k}"
        np.testing.assert_allclose(ax.lines[0].get_xdata(), [-np.sqrt(d_k), np.sqrt(d_k)])
        edges = [bar.get_x() for bar in ax.patches]
        expected, _ = np.histogram(drawn, bins=[*edges, edges[-1] + ax.patches[-1].get_width()], density=True)
        np.testing.assert_allclose(heights(ax), expected)


def test_softmax_curve_draws_what_it_is_given():
    x, p, g = np.array([-1.0, 0.0, 2.0]), np.array([0.2, 0.5, 0.9]), np.array([0.16, 0.25, 0.09])
    weight, gradient = softmax.softmax_curve(x, p, g).axes[0].lines
    np.testing.assert_array_equal(weight.get_xydata(), np.stack([x, p], axis=1))
    np.testing.assert_array_equal(gradient.get_xydata(), np.stack([x, g], axis=1))


def test_temperature_curves_draw_one_chart_a_temperature():
    rows = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    fig = softmax.temperature_curves([0.5, 2], rows)
    assert [ax.get_title() for ax in fig.axes] == ["τ = 0.5", "τ = 2"]
    np.testing.assert_allclose([heights(ax) for ax in fig.axes], rows)
