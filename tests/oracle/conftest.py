import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that the tests here can import oracle_models


@pytest.fixture
def agree(record_property):
    """Return a function that asserts how closely two arrays agree, and notes it for the table at the end.

    The difference is relative to the largest entry of the oracle's array, or, with `each`, to each entry.
    """

    def check(what, ours, theirs, tolerance, each=False):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
        assert np.isfinite(theirs).all(), what
        scale = np.abs(theirs) if each else np.abs(theirs).max()
        assert np.all(scale > 0), what
        difference = float((np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) / scale).max())
        size = " × ".join(map(str, ours.shape)) or "one number"
        record_property("oracle", [what, ours.dtype.name, size, difference, float(tolerance)])
        kind = "of each entry" if each else "of the largest entry"
        assert difference <= tolerance, f"{what}: {difference:.2e} {kind}, allowed {tolerance:.0e}"

    return check


def pytest_terminal_summary(terminalreporter):
    """Write one line for each thing compared: how often, and the largest difference with the shape that had it."""
    lines = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties if report.when == "call" else ():
                if name == "oracle":
                    what, dtype, *row = value
                    lines.setdefault((what, dtype), []).append(row)
    if not lines:
        return
    terminalreporter.section("labkit against torch and transformers: largest difference, relative to the largest entry")
    header = f"{'what':<58} {'dtype':<8} {'compared':>8} {'shape':<18} {'difference':>10} {'allowed':>8}"
    terminalreporter.write_line(header)
    for (what, dtype), rows in sorted(lines.items()):
        size, difference, tolerance = max(rows, key=lambda row: row[1])
        line = f"{what:<58} {dtype:<8} {len(rows):>8} {size:<18} {difference:>10.1e} {tolerance:>8.0e}"
        terminalreporter.write_line(line)
