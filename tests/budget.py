"""A budget of CPU time for each test file, so that quick tests stay quick.

The budget counts CPU seconds of the test and of the processes for which the test has waited, so the load of the machine
does not matter.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

_SECONDS = "seconds of the processor"


class FileBudget:
    """Fails a run if the tests of one file use more than `seconds` of CPU time together."""

    def __init__(self, seconds: float) -> None:
        self._budget = seconds
        self._began = 0.0
        self._spent: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self._began = _cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Attach the test's CPU time to the report, which carries it from the worker to the controlling process."""
        try:
            return (yield)
        finally:
            item.user_properties.append((_SECONDS, _cpu_seconds() - self._began))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            self._spent[file] += sum(float(str(value)) for name, value in report.user_properties if name == _SECONDS)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for file, spent in self._over():
            terminalreporter.write_line(
                f"{file}: {spent:.1f} s, over the budget of {self._budget:g} s for a file: make it faster, or mark its"
                " longest tests `slow`",
                red=True,
            )

    def _over(self) -> list[tuple[str, float]]:
        return [(file, spent) for file, spent in sorted(self._spent.items()) if spent > self._budget]


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
