"""Taking turns, counting memory, and the row that each measurement becomes."""

import dataclasses
import gc
import importlib
import os
import platform
import statistics
import time
import tracemalloc
from importlib import metadata
from pathlib import Path

import numpy as np

from benchmarks import THREADS

ROUNDS = 7
PAUSE = 0.05  # seconds


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table: a ratio, and the bound that it is meant to keep, if there is one."""

    what: str
    work: str
    unit: str  # what the ratio is a ratio of
    measured: float
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self):  # no measurement here is better than four digits
        object.__setattr__(self, "measured", float(f"{self.measured:.4g}"))

    @property
    def target(self):
        return self.at_most if self.at_least is None else self.at_least

    @property
    def met(self):
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.measured <= self.target if self.at_least is None else self.measured >= self.target

    def as_dict(self):
        return {**dataclasses.asdict(self), "met": self.met}


@dataclasses.dataclass(frozen=True)
class Result:
    """What one group measured: rows for the table, and series for the plots."""

    rows: list
    series: dict = dataclasses.field(default_factory=dict)

    def as_dict(self):
        return {"rows": [row.as_dict() for row in self.rows], "series": self.series}


def group(name, smoke=False):
    """Run a group of the benchmarks in this process and return its result as plain dicts."""
    return importlib.import_module(f"benchmarks.{name}").run(smoke).as_dict()


def alternate(contestants, rounds=ROUNDS, calls=1):
    """Let the contestants take turns, `calls` calls each a round; return each one's median seconds a call.

    The first round warms up and does not count. Before each turn comes a pause, in which the threads of whoever was on
    before stop waiting for more work and leave the processor.
    """
    seconds = {name: [] for name in contestants}
    gc.collect()
    for _ in range(rounds + 1):
        for name, call in contestants.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(calls):
                call()
            seconds[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


def peak_bytes(call):
    """Return the most memory that a call held at once, beyond what was there before."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def agree(ours, theirs, tolerance=1e-4):
    """Refuse to time contestants that do not compute the same, relative to the largest entry."""
    ours, theirs = (np.asarray(each, dtype=np.float64) for each in (ours, theirs))
    if ours.shape != theirs.shape:
        raise ValueError(f"contestants return different shapes: {ours.shape} and {theirs.shape}")
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not difference <= tolerance:
        raise ValueError(f"contestants differ by {difference:.1e} of the largest entry, allowed are {tolerance:.0e}")


def p95(values):
    """Return what 95 in 100 values stay within."""
    return float(np.quantile(values, 0.95, method="higher"))


def floats(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def machine():
    """Return what the figures were measured on, as one flat dict."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": THREADS,
        "BLAS": f"{blas['name']} {blas['version']}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "torch", "transformers", "playwright", "jupyterlab")},
    }


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
