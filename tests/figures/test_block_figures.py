import matplotlib.colors
import numpy as np
import pytest

from labkit.block import BlockConfig, block_shapes, transformer_block
from labkit.figures import block
from labkit.figures.canvas import BLUE, GREY, ORANGE, RED
from labkit.model import named_tensors

STAGES = ["E", "A1", "F1"]


def test_highway_has_norms_off_the_stream_before_and_on_it_after():
    before, after = block.highway().axes
    boxes = [
        sorted((text.get_position() for text in ax.texts if text.get_text() == name), key=lambda at: at[0])
        for ax in (before, after)
        for name in ("norm", "attention", "FFN", "+")
    ]
    norms, (attention,), (ffn,), adds = boxes[:4]
    assert [y for _, y in [*norms, attention, ffn]] == [0, 0, 0, 0]
    order = [norms[0], attention, adds[0], norms[1], ffn, adds[1]]
    assert order == sorted(order)
    norms, (attention,), (ffn,), adds = boxes[4:]
    assert [y for _, y in [*norms, attention, ffn]] == [1, 1, 0, 0]
    order = [attention, adds[0], norms[0], ffn, adds[1], norms[1]]
    assert order == sorted(order)


def test_highway_draws_no_line_through_a_box():
    for ax in block.highway().axes:
        boxes = [patch.get_bbox() for patch in ax.patches]
        edges = sorted(patch.get_edgecolor() for patch in ax.patches)
        assert len(boxes) == 4
        assert len(set(edges)) == 2
        level = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) == 2]
        for start, end in level:
            middle = (start + end) / 2
            assert not any(box.x0 < middle[0] < box.x1 and box.y0 < middle[1] < box.y1 for box in boxes)


def test_sizes_draws_stream_and_updates_one_stage_apart():
    fig = block.sizes(STAGES, [1, 2, 5], [0.5, 3])
    stream, added = fig.axes[0].lines
    np.testing.assert_array_equal(stream.get_xydata(), [[0, 1], [1, 2], [2, 5]])
    np.testing.assert_array_equal(added.get_xydata(), [[1, 0.5], [2, 3]])
    assert (stream.get_color(), added.get_color()) == (BLUE, ORANGE)
    assert fig.axes[0].get_yscale() == "log"
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == STAGES


def test_loss_by_stage_writes_what_it_draws():
    (ax,) = block.loss_by_stage(STAGES, [5.25, 4, 2.5], 6).axes
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 5.25], [1, 4], [2, 2.5]])
    assert [text.get_text() for text in ax.texts] == ["5.25", "4.00", "2.50", "knows nothing"]
    assert list(ax.lines[1].get_ydata()) == [6, 6]
    assert ax.get_ylim()[1] > 6


def test_contributions_draws_each_term_and_their_sum():
    (ax,) = block.contributions(STAGES, [0.25, -1.5, 4], "ab").axes
    assert [bar.get_height() for bar in ax.patches] == [0.25, -1.5, 4, 2.75]
    colours = [bar.get_facecolor()[:3] for bar in ax.patches]
    assert colours[0] == colours[2]
    assert len({*colours}) == 3
    assert [text.get_text() for text in ax.texts] == ["0.2", "−1.5", "4.0", "2.8"]
    assert [label.get_text() for label in ax.get_xticklabels()] == [*STAGES, "sum"]
    assert "ab" in ax.get_ylabel()


def test_contributions_says_red_for_what_lowers():
    (ax,) = block.contributions(STAGES, [1, -1, 1], "ab").axes
    expected = [matplotlib.colors.to_rgba(colour) for colour in (BLUE, RED, BLUE, GREY)]
    assert [bar.get_facecolor() for bar in ax.patches] == expected


def test_gradients_draws_a_line_for_every_stack():
    added = {"first": np.array([[1, 2, 3], [4, 5, 6]]), "second": np.array([[7, 8, 9]])}
    bare = {"first": np.array([[10, 20, 30]]), "second": np.array([[40, 50, 60]])}
    (ax,) = block.gradients(added, bare).axes
    found = [(tuple(line.get_ydata()), line.get_color(), line.get_linestyle()) for line in ax.lines]
    assert found == [
        ((10, 20, 30), ORANGE, "-"),
        ((40, 50, 60), ORANGE, "--"),
        ((1, 2, 3), BLUE, "-"),
        ((4, 5, 6), BLUE, "-"),
        ((7, 8, 9), BLUE, "--"),
    ]
    assert all(list(line.get_xdata()) == [1, 2, 3] for line in ax.lines)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["f(norm(x)), first", "f(norm(x)), second", "x + f(norm(x)), first", "x + f(norm(x)), second"]


@pytest.mark.parametrize("depth", [2, 16])
def test_random_stream_of_pre_norm_is_a_sum_and_of_post_norm_has_size_one(depth):
    stream, added = block.random_stream(depth, post=False, scaled=False)
    assert len(stream) == len(added) + 1 == 2 * depth + 1
    assert np.all(stream[1:] <= stream[:-1] + added + 1e-12)
    assert np.all(stream[1:] >= np.abs(stream[:-1] - added) - 1e-12)
    np.testing.assert_allclose(block.random_stream(depth, post=True, scaled=False)[0][1:], 1, rtol=1e-3)
    scaled = block.random_stream(depth, post=False, scaled=True)[1]
    assert scaled[0] == pytest.approx(added[0] / np.sqrt(2 * depth))


def test_random_stream_is_what_transformer_block_computes():
    for place in ("pre", "post"):
        rng = np.random.default_rng(3)
        config = BlockConfig(d_model=16, n_heads=2, d_ff=32, positions="none", norm_place=place)
        x, sizes = rng.normal(size=(8, 16)), []
        for _ in range(2):
            x, seen = transformer_block(x, block.random_block(config, rng), config, capture=True)
            sizes += [np.sqrt((state**2).mean()) for state in (seen.after_attention, seen.after_ffn)]
        np.testing.assert_allclose(block.random_stream(2, place == "post", False, seed=3)[0][1:], sizes)


def test_random_block_scales_only_what_writes_to_the_stream():
    config = BlockConfig(d_model=12, n_heads=3, d_ff=200, norm="layer")
    plain, divided = (named_tensors(block.random_block(config, np.random.default_rng(0), by)) for by in (1, 4))
    assert {name: array.shape for name, array in plain.items()} == block_shapes(config)
    for name, array in plain.items():
        factor = 4 if name in ("attention.w_o", "ffn.w_down") else 1
        np.testing.assert_allclose(array, factor * divided[name])
    assert np.all(plain["ffn_norm.weight"] == 1)
    assert np.all(plain["ffn_norm.bias"] == 0)
    assert plain["ffn.w_down"].std() == pytest.approx(1 / np.sqrt(200), rel=0.1)


def test_growth_draws_stream_and_updates():
    (ax,) = block.growth([1, 2, 4], [1.5, 3], limit=7).axes
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 1], [1, 2], [2, 4]])
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[1, 1.5], [2, 3]])
    assert ax.get_ylim() == (0, 7)


def lens(**framed):
    tops = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    probabilities = np.array([[0.2, 0.4], [0.6, 0.8], [1.0, 0.0]])
    right = np.array([[True, False], [False, True], [True, False]])
    return block.lens(STAGES, ["read 0", "read 1"], ["next 0", "next 1"], tops, probabilities, right, **framed)


def test_lens_puts_stages_across_and_positions_down():
    ax, twin = lens().axes
    words = {text.get_text(): text.get_position() for text in ax.texts}
    assert {name: (int(x), int(y)) for name, (x, y) in words.items()} == {
        "a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1), "e": (2, 0), "f": (2, 1),
    }  # fmt: skip
    assert [label.get_text() for label in ax.get_xticklabels()] == STAGES
    assert [label.get_text() for label in ax.get_yticklabels()] == ["read 0", "read 1"]
    assert [label.get_text() for label in twin.get_yticklabels()] == ["next 0", "next 1"]
    assert ax.yaxis_inverted()
    assert twin.get_ylim() == ax.get_ylim()
    cells = {patch.get_xy(): patch for patch in ax.patches}
    assert cells[2, 0].get_facecolor() == matplotlib.colors.to_rgba(BLUE, 0.75)
    assert cells[0, 1].get_facecolor()[:3] == matplotlib.colors.to_rgb(GREY)
    assert cells[0, 1].get_alpha() == pytest.approx(0.3)


def test_lens_frames_one_row_and_one_column():
    ax, _ = lens(position=1, stage=2, best=["v", "w", "x", "y", "z"]).axes
    frames = {patch.get_gid(): patch for patch in ax.patches if patch.get_gid()}
    assert set(frames) == {"row-0", "row-1", "column-0", "column-1", "column-2"}
    assert {gid for gid, patch in frames.items() if patch.get_alpha() == 1} == {"row-1", "column-2"}
    assert frames["row-1"].get_xy() == (0, 1)
    assert frames["column-2"].get_xy() == (2, 0)
    assert [text.get_text() for text in ax.texts if text.get_gid()] == ["v", "w", "x", "y", "z"]
    assert [text.get_gid() for text in ax.texts if text.get_gid()] == [f"best-{k}" for k in range(5)]
    colours = {gid: patch.get_edgecolor()[:3] for gid, patch in frames.items()}
    assert len(set(colours.values())) == 1
