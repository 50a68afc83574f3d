import pytest

from labkit.figures import memory

MODELS = {"small": {"weights": 3e8, "cache": 4e7}, "large": {"weights": 1.6e10, "cache": 2e9}}


def test_sizes_draws_a_bar_for_each_part_of_each_model():
    axes = memory.sizes(MODELS).axes
    assert [ax.get_title(loc="left") for ax in axes] == list(MODELS)
    for ax, parts in zip(axes, MODELS.values(), strict=True):
        assert [bar.get_width() for bar in ax.patches] == list(parts.values())
        assert [label.get_text() for label in ax.get_yticklabels()] == list(parts)
        assert ax.yaxis_inverted()  # the first part on top
        assert ax.get_xscale() == "log"
        low, high = ax.get_xlim()
        assert all(low < size < high for size in parts.values())


def test_sizes_writes_each_size_beside_its_bar():
    for ax, parts in zip(memory.sizes(MODELS).axes, MODELS.values(), strict=True):
        for text, (at, size) in zip(ax.texts, enumerate(parts.values()), strict=True):
            assert text.get_text() == memory.written(size)
            assert text.get_position() == pytest.approx((1.2 * size, at))


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2_100_000, "2.1 MB"), (1.23456e9, "1.23 GB"), (5e12, "5 TB")],
)
def test_written_chooses_the_unit(size, expected):
    assert memory.written(size) == expected
