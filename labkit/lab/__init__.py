"""The lab: every part of a transformer to be written from an empty file, and checks that say what is wrong."""

from labkit.lab.checker import check, run_check

__all__ = ["check", "run_check"]
