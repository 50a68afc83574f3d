"""Every benchmark runs at tiny sizes, and fills its rows of the table. How long anything takes fails no test."""

import collections
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are no installed package

from benchmarks import cache, measure, naive  # noqa: E402
from benchmarks.__main__ import GROUPS, RESULTS, keep, table  # noqa: E402

# How many rows of the table each group fills, by what they measure.
ROWS = {
    "prefill": {"prefill": 4},
    "decode": {"decode with cache": 5},
    "cache": {"cached against uncached": 3},
    "gqa": {"GQA": 4},
    "flash": {"flash": None},  # a row for each length from 4096 up
    "parts": dict.fromkeys(("softmax", "LayerNorm", "RMSNorm", "RoPE", "SwiGLU"), 2),
    "imports": {"import labkit": 2, "import labkit.model": 1},
    "sliders": {"sliders": 2},
    "book": {"the book": 3},
}


def check_groups(groups):
    for name, group in groups.items():
        counted = collections.Counter(row["what"] for row in group["rows"])
        assert set(counted) == set(ROWS[name]), name
        assert all(wanted in (None, counted[what]) for what, wanted in ROWS[name].items()), (name, counted)
        for row in group["rows"]:
            assert math.isfinite(row["measured"]), row
            assert row == {**measure.Row(**{key: row[key] for key in row if key != "met"}).as_dict()}, row
        check_finite(group["series"], name)


def check_finite(value, where):
    if isinstance(value, dict):
        for key, each in value.items():
            check_finite(each, f"{where}: {key}")
    elif isinstance(value, list):
        for each in value:
            check_finite(each, where)
    else:
        assert math.isfinite(value), where


def test_the_rows_of_all_groups_are_known():
    assert list(ROWS) == list(GROUPS)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["cache", "imports"], id="numpy"),
        pytest.param(["prefill", "decode", "gqa", "flash", "parts"], id="torch", marks=pytest.mark.oracle),
        # the book's own speed is measured where it is built
        pytest.param(["sliders", "book"], id="book", marks=pytest.mark.browser),
    ],
)
def test_every_benchmark_runs(names, tmp_path):
    out = tmp_path / "results.json"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "error", "-m", "benchmarks", *names, "--smoke", "--out", out]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found["groups"]) == sorted(names)
    check_groups(found["groups"])
    lines = table(found["groups"])
    assert len(lines) == 1 + sum(len(group["rows"]) for group in found["groups"].values())
    assert all(line in done.stdout for line in lines)
    for fact in ("processor", "BLAS", "threads: 2", "numpy"):
        assert fact in done.stdout


def test_the_figures_that_are_kept_are_whole():
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert set(kept["groups"]) == set(GROUPS)
    check_groups(kept["groups"])
    assert kept["machine"]["threads"] == 2
    assert all(kept["machine"].get(fact) for fact in ("processor", "cores", "BLAS", "numpy", "torch", "transformers"))
    assert len(RESULTS.read_bytes()) < 40_000


# --- the instruments ----------------------------------------------------------------------------------------------


def test_contestants_take_turns_and_the_first_round_does_not_count(monkeypatch):
    called, clock = [], iter(range(1000))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(clock) * (100 if len(called) < 4 else 1))
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: None)
    seconds = measure.alternate({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, rounds=5, calls=2)
    assert "".join(called) == "aabb" * 6
    assert seconds == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    ("bounds", "measured", "met"),
    [
        ({}, 1.0, None),
        ({"at_least": 2.0}, 2.0, True),
        ({"at_least": 2.0}, 1.99, False),
        ({"at_most": 2.0}, 2.0, True),
        ({"at_most": 2.0}, 2.01, False),
        ({"at_most": 0}, 0.0, True),
    ],
)
def test_a_target_is_met_or_not(bounds, measured, met):
    assert measure.Row("what", "work", "unit", measured, **bounds).met is met


def test_the_table_says_which_targets_are_missed():
    rows = [measure.Row("flash", "tiny", "× naive", 0.5, at_most=0.45), measure.Row("flash", "tiny", "× torch", 0.5)]
    lines = table({"flash": measure.Result(rows).as_dict()})
    assert [line.split() for line in lines[1:]] == [
        ["flash", "tiny", "0.5", "×", "naive", "≤", "0.45", "NO"],
        ["flash", "tiny", "0.5", "×", "torch"],
    ]


def test_contestants_that_differ_are_not_timed():
    measure.agree([1.0, 2.0], [1.0, 2.0001], tolerance=1e-3)
    for theirs in ([1.0, 2.1], [1.0, np.nan], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="contestants"):
            measure.agree([1.0, 2.0], theirs)


def test_memory_is_counted():
    assert 8_000_000 < measure.peak_bytes(lambda: np.ones(1_000_000)) < 8_100_000


def test_the_95th_percentile_is_one_of_the_values():
    assert measure.p95(range(1, 101)) == 96  # 95 of the 100 values are smaller


def test_the_slope_is_that_of_the_longer_half():
    lengths = np.array([1, 2, 4, 8, 16])
    assert cache.slope(lengths, np.where(lengths < 4, 1.0, lengths**1.5)) == pytest.approx(1.5)


def test_naive_attention_by_hand():
    q, k, v = np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]]), np.array([[1.0], [5.0]])
    out = naive.attention(q, k, v, np.array([[True, False], [True, True]]))
    np.testing.assert_allclose(out, [[1.0], [3.0]])


def test_a_rerun_of_some_groups_leaves_the_others_as_they_were(tmp_path):
    path, here = tmp_path / "results.json", {"processor": "A", "torch": "2"}
    keep({"flash": {"rows": [], "series": {"T": [1 / 3]}}}, here, path)
    keep({"gqa": {"rows": [], "series": {}}}, {"processor": "A", "torch": None, "playwright": "1"}, path)
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["groups"] == {"flash": {"rows": [], "series": {"T": [0.3333]}}, "gqa": {"rows": [], "series": {}}}
    assert kept["machine"] == {"processor": "A", "torch": "2", "playwright": "1"}
    keep({"gqa": {"rows": [], "series": {}}}, {"processor": "B"}, path)
    assert set(json.loads(path.read_text(encoding="utf-8"))["groups"]) == {"gqa"}
