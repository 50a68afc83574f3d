"""The verdict on an answer, and how it is put into words."""

from dataclasses import dataclass, field

PASSED, FAILED, NOT_STARTED, WAITING, UNKNOWN = "passed", "failed", "not started", "waiting", "unknown"
SIGNS = {PASSED: "✓", FAILED: "✗", NOT_STARTED: "○", WAITING: "○", UNKNOWN: "?"}


@dataclass(frozen=True)
class Result:
    """What became of an answer. `str(result)` is the verdict to print.

    `message` names the mistake, `details` are pairs of a label and a text (the smallest input that shows the mistake,
    what was expected, what came), `wrong` has the same for every case that is not right, by the name of the case.
    """

    name: str
    status: str
    chapter: int | None = None
    message: str = ""
    right: int = 0
    total: int = 0
    details: tuple[tuple[str, str], ...] = ()
    wrong: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    printed: str = ""

    @property
    def passed(self):
        """Whether the answer is right."""
        return self.status == PASSED

    @property
    def headline(self):
        """The verdict in one line."""
        text = self.message
        if self.status == PASSED and not text:
            text = f"all {self.total} cases pass."
        if self.status == NOT_STARTED:
            text = " ".join(["not started.", text]).strip()
        return f"{SIGNS[self.status]} {self.name}: {text}"

    def __str__(self):
        lines = [self.headline, *_table(self.details)]
        if self.printed:
            count = len(self.printed.splitlines())
            lines.append(f"    (It prints {count} line{'s' * (count > 1)} on the way, not shown here.)")
        if self.status == FAILED:
            counts = f"{self.right} of {self.total} cases pass. " if self.total > 1 else ""
            lines.append(f"    {counts}See chapter {self.chapter}.")
        return "\n".join(lines)

    def about(self, case):
        """Return what is wrong in one case, in words, or None if nothing is."""
        if self.passed or (self.status == FAILED and case not in self.wrong):
            return None
        if self.status != FAILED:
            return self.headline
        return "\n".join([self.headline, *_table(self.wrong[case])])


def _table(details):
    width = max((len(label) for label, _ in details), default=0)
    return [f"    {label:<{width}}  {text}".rstrip() for label, text in details]
