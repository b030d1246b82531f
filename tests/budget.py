"""A budget of computing time for each file of tests: the quick ones stay quick.

It counts seconds of the processor, of the test and of processes that it waited for: how busy the machine is does not
matter.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

_SECONDS = "seconds of the processor"


class FileBudget:
    """Fails a run in which the tests of one file compute longer than `seconds` together."""

    def __init__(self, seconds: float) -> None:
        self._budget = seconds
        self._began = 0.0
        self._spent: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Note when a test began."""
        self._began = _computed()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Tell how long the test took; the report takes it from a worker to the process that counts."""
        try:
            return (yield)
        finally:
            item.user_properties.append((_SECONDS, _computed() - self._began))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count for the test's file."""
        if report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            self._spent[file] += sum(float(str(told)) for name, told in report.user_properties if name == _SECONDS)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run where a file is over its budget."""
        if self._over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the files that are over their budget."""
        for file, spent in self._over():
            terminalreporter.write_line(
                f"{file}: {spent:.1f} s, over the budget of {self._budget:g} s for a file: make it faster, or mark its"
                " longest tests `slow`",
                red=True,
            )

    def _over(self) -> list[tuple[str, float]]:
        return [(file, spent) for file, spent in sorted(self._spent.items()) if spent > self._budget]


def _computed() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
