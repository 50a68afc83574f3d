import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import their helpers, such as `mutation`


def pytest_terminal_summary(terminalreporter):
    """Print the chain of equalities (test_equalities.py), whichever worker ran it."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    links = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == "chain"
    ]
    if links:
        terminalreporter.section(
            "the chain of equalities: largest difference, and what a planted fault would make of it"
        )
        terminalreporter.write_line(f"{'link':<56} {'difference':>10} {'control':>9}")
        for link in links:
            terminalreporter.write_line(link)
