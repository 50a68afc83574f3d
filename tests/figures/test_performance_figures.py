import numpy as np
import pytest

from labkit.figures import performance
from labkit.figures.canvas import BLUE, RED


def test_headroom_counts_in_the_direction_of_the_target():
    assert performance.headroom(0.9, at_least=0.6) == pytest.approx(1.5)
    assert performance.headroom(0.9, at_most=0.6) == pytest.approx(2 / 3)


def test_targets_draws_each_bar_from_the_target_to_the_measurement():
    values = {"met twice over": 2.0, "missed by half": 0.5, "just met": 1.0, "far ahead": 30.0}
    (ax,) = performance.targets(values).axes
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert ends == pytest.approx(list(values.values()))
    assert [bar.get_x() for bar in ax.patches] == [1, 1, 1, 1]
    colours = [tuple(np.round(bar.get_facecolor()[:3], 3)) for bar in ax.patches]
    assert colours[1] != colours[0] == colours[2] == colours[3]
    assert colours[:2] == [tuple(np.round(_rgb(colour), 3)) for colour in (BLUE, RED)]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(values)
    assert ax.lines[0].get_xdata() == [1, 1]
    assert ax.get_xlim() == (0.1, 10)
    assert ax.yaxis_inverted()


def _rgb(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def test_over_length_draws_every_ratio_and_target():
    panels = {
        "one": {"T": [128, 512, 1024], "lines": {"a": [1.0, 2.0, 0.5]}, "targets": [1.0], "ylabel": "ratio"},
        "two": {"T": [1024, 4096], "lines": {"b": [3.0, 4.0], "c": [0.1, 0.2]}, "targets": [], "ylabel": "other"},
    }
    axes = performance.over_length(panels).axes
    assert [ax.get_title() for ax in axes] == ["one", "two"]
    assert [ax.get_ylabel() for ax in axes] == ["ratio", "other"]
    drawn = [[list(line.get_ydata()) for line in ax.lines] for ax in axes]
    assert drawn == [[[1.0, 2.0, 0.5], [1.0, 1.0]], [[3.0, 4.0], [0.1, 0.2]]]
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["128", "512", "1k"]
    assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["b", "c"]
    assert all(ax.get_xscale() == ax.get_yscale() == "log" for ax in axes)
    for ax in axes:
        low, high = ax.get_ylim()
        assert all(low < y < high for line in ax.lines for y in line.get_ydata())


def test_follows_bytes_draws_the_points_under_the_line():
    (ax,) = performance.follows_bytes([32, 8, 1], [1.0, 4.0, 32.0], [1.0, 3.0, 9.0]).axes
    ideal, measured = ax.lines
    assert list(ideal.get_xdata()) == list(ideal.get_ydata())
    assert list(zip(measured.get_xdata(), measured.get_ydata(), strict=True)) == [(1, 1), (4, 3), (32, 9)]
    assert [text.get_text() for text in ax.texts] == ["G = 32", "G = 8", "G = 1"]
    assert ax.get_xlim()[1] > 32


def test_shares_draws_every_value_and_the_line_of_what_is_allowed():
    groups = {"page": [0.2, 0.4, 1.7], "JupyterLab": [0.9, 0.8]}
    (ax,) = performance.shares(groups, "share of a frame").axes
    *dots, allowed = ax.lines
    assert [list(each.get_xdata()) for each in dots] == list(groups.values())
    assert [set(each.get_ydata()) for each in dots] == [{0}, {1}]
    assert allowed.get_xdata() == [1, 1]
    assert ax.get_xlim()[1] > 1.7
    assert [label.get_text() for label in ax.get_yticklabels()] == list(groups)
    assert ax.get_xlabel() == "share of a frame"
