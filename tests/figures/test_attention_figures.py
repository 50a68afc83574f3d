import numpy as np
import pytest

from labkit.figures import attention


def test_attention_map_has_queries_down_and_keys_across():
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.2, 0.3]])
    ax = attention.attention_map(weights, query=1, labels=["a", "b", "c"]).axes[0]
    assert "query" in ax.get_ylabel()
    assert "key" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    cells = {patch.get_gid(): patch for patch in ax.patches}
    for i, j in np.ndindex(3, 3):
        cell = cells[f"cell-{3 * i + j}"]
        assert (cell.get_x(), cell.get_y()) == (j, i)
        assert cell.get_alpha() == pytest.approx(weights[i, j], abs=1e-4)
    assert ax.yaxis_inverted()  # the first query is the top row
    assert [cells[f"row-{i}"].get_alpha() > 0.5 for i in range(3)] == [False, True, False]
    written = [text.get_text() for text in ax.texts if text.get_gid()]
    assert written == ["0.25", "0.75", "0.00"]
