"""How pytest shares the tests out between its two workers."""

import re

from xdist.scheduler import LoadScopeScheduling


def pytest_xdist_make_scheduler(config, log):
    """Send each test to whichever worker is free, except those that belong together."""
    return Together(config, log)


class Together(LoadScopeScheduling):
    """Keeps a notebook's cells in one kernel, and a module's mutants in the worker that ran them all."""

    def _split_scope(self, nodeid):
        together = re.match(r".*\.ipynb|tests/test_mutants\.py::\w+\[(\w+)", nodeid)
        return (together[1] or together[0]) if together else nodeid
