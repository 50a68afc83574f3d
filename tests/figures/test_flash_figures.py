import numpy as np
import pytest

from labkit.accounting import A100, ridge
from labkit.accounting import roofline as attainable
from labkit.figures import flash
from labkit.figures.canvas import BLUE, ORANGE
from labkit.flash import blocks_that_fit, count_tiles, naive_traffic, tiled_traffic
from labkit.mask import causal_mask, sliding_window_mask


def labelled(ax):
    return {line.get_label(): line for line in ax.lines}


def colour(patch):
    return patch.get_facecolor()[:3]


def rgb(name):
    return tuple(int(name[i : i + 2], 16) / 255 for i in (1, 3, 5))


def walk(scores, tops, counted, path):
    values = np.array([[0.0, 1], [2, -1], [4, 0], [1, 1], [3, 5]])
    return flash.tile_walk(np.array(scores), values, 2, tops, np.array(counted), np.array(path), np.array([2.5, 1.5]))


def test_tile_walk_draws_scores_counts_and_path():
    path = [[1.0, 0.5], [2.0, 0.25]]
    fig = walk([0.5, -1.0, -np.inf, 2.0, 1.0], [-np.inf, 0.5, 2.0], [0.2, 0.05, 0, 1, 0], path)
    upper, lower, plane = fig.axes
    lines = labelled(upper)
    assert lines["seen"].get_xydata().tolist() == [[0, 0.5], [1, -1], [3, 2]]
    assert lines["still to come"].get_xydata().tolist() == [[4, 1]]
    assert lines["running maximum"].get_xydata().tolist() == [[-0.5, -np.inf], [1.5, 0.5], [3.5, 2]]
    bars = [patch for patch in lower.patches if colour(patch) == pytest.approx(rgb(BLUE))]
    assert [bar.get_height() for bar in bars] == [0.2, 0.05, 0, 1, 0]
    points = labelled(plane)
    assert points["values"].get_xydata().tolist() == [[0, 1], [2, -1], [4, 0], [1, 1], [3, 5]]
    assert points["attention's answer"].get_xydata().tolist() == [[2.5, 1.5]]
    assert points["output so far"].get_xydata().tolist() == [[2, 0.25]]
    assert any(line.get_xydata().tolist() == path for line in plane.lines)
    names = {text.get_text() for text in fig.legends[0].get_texts()}
    assert names == {"seen", "still to come", "running maximum", "values", "attention's answer", "output so far"}


def test_tile_walk_shades_every_other_tile_and_starts_empty():
    fig = walk([0.5, -1.0, 3.0, 2.0, 1.0], [-np.inf], np.zeros(5), np.zeros((0, 2)))
    upper, lower, plane = fig.axes
    for ax in (upper, lower):
        spans = [patch for patch in ax.patches if patch.get_alpha()]
        assert [(patch.get_x(), patch.get_width()) for patch in spans] == [(-0.5, 2), (3.5, 2)]
    assert len(labelled(upper)["seen"].get_xdata()) == 0
    assert "output so far" not in labelled(plane)


def test_data_flow_points_arrows_and_writes_millions():
    arrays = {"a": (4_000_000, 0), "b": (1_000_000, 1_000_000), "c": (0, 250_000)}
    fig = flash.data_flow({"one way": arrays, "other": {"a": (0, 10_000), "b": (20_000, 0)}})
    first, second = fig.axes
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["one way", "other"]
    arrows = [patch for patch in first.patches if len(patch.get_path()) > 5]
    assert len(arrows) == 4
    widths, heads = {}, []
    for arrow, (name, down) in zip(arrows, [("a", True), ("b", True), ("b", False), ("c", False)], strict=True):
        assert colour(arrow) == pytest.approx(rgb(BLUE if down else ORANGE))
        x, y = arrow.get_xy()[:-1].T
        tip = y[3]
        assert tip == (y.min() if down else y.max())
        widths[name] = x[6] - x[0]
        heads.append(x[3])
    assert widths["a"] == pytest.approx(2 * widths["b"])
    assert widths["b"] == pytest.approx(2 * widths["c"])
    texts = {text.get_text(): text.get_position()[0] for text in first.texts}
    assert texts["4.00"] == heads[0] == texts["a"]
    assert texts["0.25"] == heads[3] == texts["c"]
    assert heads[1] > texts["b"] > heads[2]
    assert {"slow memory", "on chip", "1.00"} <= set(texts)
    assert {"0.01", "0.02"} <= {text.get_text() for text in second.texts}


@pytest.mark.parametrize(("T", "S", "block_q", "block_k"), [(14, 18, 4, 5), (6, 6, 2, 3), (9, 5, 4, 2)])
def test_tile_map_agrees_with_the_masks_and_the_counts(T, S, block_q, block_k):
    rules = {"none": {}, "causal": {"causal": True}, "window": {"window": 3}}
    masks = [np.ones((T, S), bool), causal_mask(T, S), sliding_window_mask(T, 3, S)]
    fig = flash.tile_map(T, S, block_q, block_k, rules)
    for ax, (title, rule), mask in zip(fig.axes, rules.items(), masks, strict=True):
        assert ax.get_title() == title
        tiles = [patch for patch in ax.patches if patch.get_label() in ("whole", "in part", "skipped")]
        assert sum(tile.get_label() != "skipped" for tile in tiles) == count_tiles(T, S, block_q, block_k, **rule)
        covered = np.zeros((T, S), int)
        for tile in tiles:
            i, j = round(tile.get_y() + 0.5), round(tile.get_x() + 0.5)
            piece = np.s_[i : i + round(tile.get_height()), j : j + round(tile.get_width())]
            covered[piece] += 1
            seen = mask[piece]
            assert tile.get_label() == ("whole" if seen.all() else "in part" if seen.any() else "skipped")
        assert np.all(covered == 1)
        dots = np.zeros((T, S), bool)
        for line in ax.lines:
            x, y = line.get_data()
            dots[y, x] = True
        np.testing.assert_array_equal(dots, mask)
    assert fig.axes[0].get_ylabel() == "query"
    assert {ax.get_xlabel() for ax in fig.axes} == {"key"}


@pytest.mark.parametrize(("T", "d_head", "on_chip"), [(1024, 64, 2**12), (65_536, 256, 2**20)])
def test_traffic_draws_what_is_counted(T, d_head, on_chip):
    ax = flash.traffic(T, d_head, on_chip).axes[0]
    lines = labelled(ax)
    moved = [tiled_traffic(T, T, d_head, *blocks_that_fit(size, d_head)) for size in flash.ON_CHIP]
    np.testing.assert_array_equal(lines["in tiles"].get_xydata(), np.stack([flash.ON_CHIP, moved], axis=1))
    assert set(lines["plain"].get_ydata()) == {naive_traffic(T, T, d_head)}
    assert set(lines["inputs and output once"].get_ydata()) == {4 * T * d_head}
    at = [on_chip, moved[flash.ON_CHIP.index(on_chip)]]
    assert any(line.get_xydata().tolist() == [at] for line in ax.lines)
    low, high = ax.get_ylim()
    assert low < 4 * T * d_head
    assert high > max(*moved, naive_traffic(T, T, d_head))


def test_roofline_chart_puts_points_on_the_roof():
    points = {"slow": 1.0, "slower": 20.0, "near": 100.0, "past": 500.0}
    ax = flash.roofline_chart(A100, points).axes[0]
    lines = labelled(ax)
    for name, at in points.items():
        x, y = lines[name].get_xydata()[0]
        assert (x, y) == (at, pytest.approx(attainable(at, A100.peak_flops, A100.bandwidth) / 1e12))
    assert lines["past"].get_ydata()[0] == pytest.approx(312)
    assert lines["slow"].get_ydata()[0] == pytest.approx(2.039)
    roof = ax.lines[0].get_xydata()
    np.testing.assert_allclose(roof[:, 1], np.minimum(312, 2.039 * roof[:, 0]))
    assert any(set(line.get_xdata()) == {ridge(A100.peak_flops, A100.bandwidth)} for line in ax.lines)
    assert {*points, "ridge: 153"} <= {text.get_text() for text in ax.texts}


def test_measured_draws_both_ways_in_its_units():
    memory, time = flash.measured({256: (1e6, 0.001, 2e6, 0.004), 512: (8e6, 0.002, 3e6, 0.005)}).axes
    assert labelled(memory)["plain"].get_xydata().tolist() == [[256, 1], [512, 8]]
    assert labelled(memory)["in tiles"].get_xydata().tolist() == [[256, 2], [512, 3]]
    np.testing.assert_allclose(labelled(time)["plain"].get_xydata(), [[256, 1], [512, 2]])
    np.testing.assert_allclose(labelled(time)["in tiles"].get_xydata(), [[256, 4], [512, 5]])
    assert "MB" in memory.get_title()
    assert "ms" in time.get_title()


def test_the_stored_run_has_quadratic_and_linear_memory():
    lengths = sorted(flash.MEASURED)
    assert lengths == [2**n for n in range(8, 14)]
    for T in lengths:
        plain, _, tiles, _ = flash.MEASURED[T]
        assert 2 * 4 * T * T < plain < 4 * 4 * T * T
        assert tiles < 4 * (3 * T * 64 + 10 * 128 * (128 + 64))
