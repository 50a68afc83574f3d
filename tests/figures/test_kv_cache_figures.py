import numpy as np
import pytest
from matplotlib.patches import Ellipse

from labkit.accounting import A100, LLAMA2_7B, LLAMA3_8B, least_seconds, ridge
from labkit.accounting import roofline as attainable
from labkit.figures import kv_cache
from labkit.kv_cache import cache_bytes


def labelled(ax):
    return {line.get_label(): line for line in ax.lines}


def marked(fig):
    return {artist.get_gid(): artist for artist in fig.findobj(lambda artist: artist.get_gid())}


def test_work_of_steps_draws_computed_strong_and_read_pale():
    work = np.array([[2, 0, 0], [1, 2, 0]])
    left, right = kv_cache.work_of_steps({"one": work, "other": np.full((2, 3), 2)}).axes
    assert (left.get_title(), right.get_title()) == ("one", "other")
    cells = {(round(p.get_y() - 0.04), round(p.get_x() - 0.04)): p.get_alpha() for p in left.patches}
    assert cells[0, 0] == cells[1, 1] > cells[1, 0]  # row: step, column: token
    assert sorted(cells) == [(0, 0), (1, 0), (1, 1)]
    assert len(right.patches) == 6
    assert (left.get_xlabel(), left.get_ylabel()) == ("token", "step")
    assert left.get_ylim() == (2, 0)  # the first step at the top


def test_shared_heads_joins_neighbours_to_one_head():
    fig = kv_cache.shared_heads(6, {"a": 6, "b": 2, "c": 1})
    ends = [[tuple(line.get_xdata()) for line in ax.lines] for ax in fig.axes]
    assert ends[0] == [(h, h) for h in range(6)]
    assert ends[1] == [(0, 1), (1, 1), (2, 1), (3, 4), (4, 4), (5, 4)]
    assert ends[2] == [(h, 2.5) for h in range(6)]
    names = [[text.get_text() for text in ax.texts] for ax in fig.axes]
    assert names[1] == ["q0", "q1", "q2", "q3", "q4", "q5", "kv0", "kv1"]
    assert [ax.get_title() for ax in fig.axes] == ["a", "b", "c"]


@pytest.mark.parametrize(("context", "heads", "size"), [(1024, 1, 0.5), (4096, 8, 2), (131_072, 32, 4)])
def test_cache_size_marks_one_line_and_one_dot(context, heads, size):
    fig = kv_cache.cache_size(context, heads, size, n_layers=3, d_head=10, marks={"limit": 1e9})
    found = marked(fig)
    lines = [found[f"line-{i}"] for i in range(9)]
    strong = [line for line in lines if line.get_alpha() == 1]
    at = kv_cache.CONTEXTS.index(context)
    expected = [cache_bytes(3, heads, 10, c, bytes_per_value=size) for c in kv_cache.CONTEXTS]
    assert len(strong) == 1
    np.testing.assert_allclose(2 ** strong[0].get_xy(), np.stack([kv_cache.CONTEXTS, expected], axis=1))
    dots = [dot for dot in fig.findobj(Ellipse) if dot.get_alpha() == 1]
    assert len(dots) == 1
    np.testing.assert_allclose(2 ** np.array(dots[0].center), (context, expected[at]))
    assert dots[0] is found[f"dot-{8 * lines.index(strong[0]) + at}"]
    assert any(np.allclose(line.get_ydata(), np.log2(1e9)) for line in fig.axes[0].lines)
    assert [t.get_text() for t in fig.axes[0].texts][:2] == ["0.5", "1"]


def test_every_setting_has_a_line_and_a_dot():
    assert len(kv_cache.PRODUCTS) == 9
    for heads in kv_cache.KV_HEADS:
        for size in kv_cache.PRECISIONS:
            assert sorted(kv_cache.lines_of_size(heads, size))[-2:] == [0.25, 1]
            for context in kv_cache.CONTEXTS:
                assert sum(kv_cache.dots_of_size(context, heads, size)) == 1


def test_cache_over_context_draws_each_curve_in_gib_up_to_its_end():
    curves = {name: ([256, 512 * n], [2**27, n * 2**29]) for n, name in enumerate("abcde", start=1)}
    fig = kv_cache.cache_over_context(curves)
    lines = labelled(fig.axes[0])
    ends = [line.get_xydata().tolist() for line in fig.axes[0].lines if line.get_marker() == "o"]
    for n, name in enumerate("abcde", start=1):
        np.testing.assert_allclose(lines[name].get_xydata(), [[256, 1 / 8], [512 * n, n / 2]])
        assert [[512.0 * n, n / 2]] in ends
    assert (fig.axes[0].get_xlabel(), fig.axes[0].get_ylabel()) == (
        "context in tokens",
        "cache of one sequence in GiB",
    )


def test_decode_roofline_puts_every_point_on_the_roof():
    series = {"many": {1: 1.0, 64: 6.5}, "few": {1: 1.1, 64: 20.0, 512: 300.0}}
    fig = kv_cache.decode_roofline(A100, series, prefill=4000.0)
    chip = A100.peak_flops, A100.bandwidth
    lines = labelled(fig.axes[0])
    for name, points in (*series.items(), ("prefill, batch 1", {1: 4000.0})):
        at = np.array(list(points.values()))
        np.testing.assert_allclose(lines[name].get_xydata(), np.stack([at, attainable(at, *chip) / 1e12], axis=1))
    roof = next(line for line in fig.axes[0].lines if len(line.get_xdata()) == 121)
    np.testing.assert_allclose(roof.get_ydata(), attainable(roof.get_xdata(), *chip) / 1e12)
    assert any(np.allclose(line.get_xdata(), ridge(*chip)) for line in fig.axes[0].lines)
    assert {"1", "64", "512"} <= {text.get_text() for text in fig.axes[0].texts}


@pytest.mark.parametrize(("batch", "context", "heads"), [(1, 1024, 32), (64, 4096, 8)])
def test_step_time_draws_the_least_milliseconds(batch, context, heads):
    models = {32: LLAMA2_7B, 8: LLAMA3_8B}
    ax = kv_cache.step_time(batch, context, heads, models, A100).axes[0]
    lines = labelled(ax)
    for G, config in models.items():
        ms = [1e3 * least_seconds(config, "decode", c, A100, batch) for c in kv_cache.CONTEXTS]
        np.testing.assert_allclose(lines[f"n_kv_heads = {G}"].get_xydata(), np.stack([kv_cache.CONTEXTS, ms], axis=1))
        assert (lines[f"n_kv_heads = {G}"].get_linewidth() > 2) == (heads == G)
    dot = next(line for line in ax.lines if line.get_marker() == "o").get_xydata()
    wanted = 1e3 * least_seconds(models[heads], "decode", context, A100, batch)
    np.testing.assert_allclose(dot, [[context, wanted]])


@pytest.mark.parametrize("batch", [1, 8, 64, 256])
def test_step_time_keeps_all_curves_in_sight(batch):
    models = {32: LLAMA2_7B, 8: LLAMA3_8B}
    ax = kv_cache.step_time(batch, 1024, 8, models, A100).axes[0]
    low, high = ax.get_ylim()
    for line in ax.lines:
        assert low < min(line.get_ydata())
        assert max(line.get_ydata()) < high
