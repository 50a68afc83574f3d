"""How pytest shares the tests out between its two workers."""

import os
import re

import pytest
from xdist.scheduler import LoadScopeScheduling

# One thread for each of two workers, and for the kernels that they start: more would get into each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)  # absent where a test runs pytest without workers
def pytest_xdist_make_scheduler(config, log):
    """Send each test to whichever worker is free, except those that belong together."""
    return Together(config, log)


class Together(LoadScopeScheduling):
    """Keeps together what is slow to make twice.

    That is a notebook's kernel, the run of a module's mutants, the pictures of a chapter's explorers, and JupyterLab.
    """

    together = re.compile(
        r".*\.ipynb|tests/test_mutants\.py::\w+\[[a-z_]+|tests/browser/test_jupyterlab\.py"
        r"|tests/browser/test_explorers\.py(?=::\w+\[.*?(\d\d_[a-z_]+|birth))"
    )

    def _split_scope(self, nodeid):
        found = self.together.match(nodeid)
        return found[0].rpartition("[")[2] + (found[1] or "") if found else nodeid
