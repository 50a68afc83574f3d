import math

import numpy as np
import pytest

from labkit.accounting import GPT2_SMALL, LLAMA3_8B
from labkit.figures import ffn
from labkit.figures.canvas import BLUE, ORANGE, RED
from labkit.model import count_params

BY_HAND = {
    "ReLU": lambda z: max(z, 0.0),
    "GELU, tanh": lambda z: 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "GELU, erf": lambda z: 0.5 * z * (1 + math.erf(z / math.sqrt(2))),
    "SiLU": lambda z: z / (1 + math.exp(-z)),
}


@pytest.mark.parametrize("name", ffn.ACTIVATIONS)
def test_activations_and_slopes_are_those_of_their_names(name):
    f = BY_HAND[name]
    for z in (-2.7, -1.0, 0.5, 3.0):
        assert ffn.activation(name, z) == pytest.approx(f(z), abs=1e-12)
        assert ffn.slope(name, z) == pytest.approx((f(z + 1e-4) - f(z - 1e-4)) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("z", [ffn.GATES[0], -1.5, 0.0, ffn.GATES[-1]])
@pytest.mark.parametrize("name", ffn.ACTIVATIONS)
def test_gated_unit_marks_the_point_and_draws_the_gate(name, z):
    left, right = ffn.gated_unit(name, z).axes
    value = BY_HAND[name](z)
    (curve,) = [line for line in left.lines if line.get_color() == BLUE]
    np.testing.assert_allclose(curve.get_ydata(), [BY_HAND[name](x) for x in curve.get_xdata()], atol=1e-12)
    (point,) = [line for line in left.lines if line.get_color() == ORANGE]
    np.testing.assert_allclose(point.get_xydata(), [[z, value]], atol=1e-12)
    (tangent,) = [line for line in left.lines if line.get_color() == RED]
    (x0, y0), (x1, y1) = tangent.get_xydata()
    assert (y1 - y0) / (x1 - x0) == pytest.approx(float(ffn.slope(name, z)))
    assert (y0 + y1) / 2 == pytest.approx(value, abs=1e-9)
    (passed,) = [line for line in right.lines if line.get_color() == ORANGE]
    np.testing.assert_allclose(passed.get_ydata(), value * passed.get_xdata(), atol=1e-12)
    assert max(abs(passed.get_ydata())) < right.get_ylim()[1]


def test_two_gelus_draws_their_difference():
    line = (
        ffn.two_gelus(np.array([-1.0, 0.0, 2.0]), np.array([0.3, 0.0, 2.0]), np.array([0.1, 0.0, 1.5])).axes[0].lines[0]
    )
    np.testing.assert_allclose(line.get_xydata(), [[-1, 0.2], [0, 0], [2, 0.5]])


def test_where_parameters_live_draws_shares_of_the_total():
    counts = [count_params(config) for config in (GPT2_SMALL, LLAMA3_8B)]
    ax = ffn.where_parameters_live(["GPT-2", "Llama-3"], counts).axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["GPT-2", "Llama-3"]
    assert ax.yaxis_inverted()
    bars = {container.get_label(): container.patches for container in ax.containers}
    for i, count in enumerate(counts):
        tables = count["embedding"] + count["positions"] + count["head"]
        expected = {"FFN": count["ffn"], "attention": count["attention"], "tables": tables}
        at = 0
        for name, value in expected.items():
            bar = bars[name][i]
            assert bar.get_x() == pytest.approx(at)
            assert bar.get_width() == pytest.approx(value / count["total"])
            at += bar.get_width()
    assert ax.lines[0].get_xdata()[0] == pytest.approx(2 / 3)


def test_work_over_context_draws_what_it_is_given():
    shares = {"FFN": [0.6, 0.3], "projections": [0.3, 0.2], "scores": [0.1, 0.5]}
    ax = ffn.work_over_context([128, 1024], shares, crossing=700).axes[0]
    for line, (name, values) in zip(ax.lines, shares.items(), strict=False):
        assert line.get_label() == name
        np.testing.assert_allclose(line.get_xydata(), np.stack([[128, 1024], values], axis=1))
    assert ax.lines[3].get_xdata()[0] == 700
