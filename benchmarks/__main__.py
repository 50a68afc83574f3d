"""Run the benchmarks that are named, or all, print the table, and keep the figures for the book's page."""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import benchmarks

GROUPS = {  # in the order of the table
    "prefill": "reading a prompt, against transformers and the GEMM rate",
    "decode": "writing with a cache, against transformers and the streaming rate",
    "cache": "writing with a cache, against a textbook GPT without one",
    "gqa": "attention at Llama-3-8B's size, with fewer key/value heads",
    "flash": "attention in tiles, against naive NumPy and torch: memory and time",
    "parts": "softmax, norms, RoPE and SwiGLU, against torch",
    "imports": "import labkit, against import numpy",
    "sliders": "explorers in the built page and in JupyterLab (needs a browser and `make book`)",
    "book": "running the chapters, building the book, checking the notebooks (slow)",
}
RESULTS = Path(__file__).with_name("results.json")


def run(name, smoke=False):
    """Return what a group measured, as plain dicts.

    It has a process of its own, so that no group leaves threads or memory behind that the next would feel.
    """
    from benchmarks.measure import group

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(group, name, smoke).result()


def table(groups):
    """Return the table's lines: what, work, measured, target, and whether it is met."""
    lines = [("what", "work", "measured", "", "target", "met?")]
    for name in filter(groups.get, GROUPS):
        for row in groups[name]["rows"]:
            bound = "≥" if row["at_most"] is None else "≤"
            target = row["at_least"] if row["at_most"] is None else row["at_most"]
            aim = "" if target is None else f"{bound} {target:g}"
            met = {True: "yes", False: "NO", None: ""}[row["met"]]
            lines.append((row["what"], row["work"], f"{row['measured']:.3g}", row["unit"], aim, met))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def keep(found, machine, path):
    """Write what was found; groups that did not run keep what they had, if the machine is the same."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = {name: value for name, value in machine.items() if value is not None}
    old = before.get("machine", {})
    same = all(old.get(name) in (None, value) for name, value in known.items())
    groups = {**(before.get("groups", {}) if same else {}), **found}
    text = json.dumps(
        {"machine": {**(old if same else {}), **known}, "groups": _rounded(groups)}, indent=1, sort_keys=True
    )
    path.write_text(text + "\n", encoding="utf-8")


def main(arguments=None):
    listed = "\n".join(f"  {name:9}{says}" for name, says in GROUPS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=benchmarks.__doc__,
        epilog=f"groups:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="group", help="which to run (default: all)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that everything runs; writes nothing")
    parser.add_argument("--out", type=Path, help=f"where to write the figures (default: {RESULTS.name} beside this)")
    options = parser.parse_args(arguments)
    for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR"):  # before NumPy and torch are imported
        os.environ[f"{library}_NUM_THREADS"] = str(benchmarks.THREADS)
    out = options.out or (None if options.smoke else RESULTS)

    from benchmarks.measure import machine

    found = {}
    for name in options.groups or GROUPS:
        start = time.perf_counter()
        found[name] = run(name, options.smoke)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if out:  # after each group: they take minutes, and a later one may fail
            keep(found, machine(), out)
    print("\n".join([*(f"{name}: {value}" for name, value in machine().items()), "", *table(found)]))


def _rounded(value):
    """Round every float to four digits: no measurement here is better than that."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
