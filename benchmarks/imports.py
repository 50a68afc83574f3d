"""What `import labkit` costs and what it loads, each time in a new process."""

import json
import statistics
import subprocess
import sys

from benchmarks.measure import Result, Row

HEAVY = ("matplotlib", "ipywidgets", "safetensors")
CODE = """
import json, sys, time
start = time.perf_counter()
import {}
print(json.dumps([time.perf_counter() - start, [name for name in {!r} if name in sys.modules]]))
"""


def run(smoke=False):
    seconds = {"numpy": [], "labkit": [], "labkit.model": []}
    loaded = set()
    for _ in range(2 if smoke else 12):
        for name, each in seconds.items():
            took, heavy = _import(name)
            each.append(took)
            loaded |= set(heavy)
    median = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    work, unit = "a new process", "× import numpy"
    return Result([
        Row("import labkit", work, unit, median["labkit"] / median["numpy"], at_most=1.3),
        Row("import labkit.model", work, unit, median["labkit.model"] / median["numpy"]),
        Row("import labkit", work, f"of {', '.join(HEAVY)} loaded", len(loaded) / len(HEAVY), at_most=0),
    ])  # fmt: skip


def _import(name):
    """Return the seconds that an import takes, and which of the heavy modules it loads."""
    command = [sys.executable, "-c", CODE.format(name, HEAVY)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
