"""`--cases DIR` runs the cases of any folder. The summary of the run counts cases by area."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conformance.case_files import OPEN_CASES, case_files
from tests.conformance.differences import difference
from tests.conformance.not_applicable import not_applicable

OUTCOMES = ("passed", "failed", "not applicable", "different on purpose")
_counted = pytest.StashKey[Counter[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=Path, default=None, metavar="DIR", help="conformance: run the case files of DIR")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames or "area" not in metafunc.fixturenames:
        return
    # The option is unknown in a run of all tests, which reads this file late.
    folder: Path = metafunc.config.getoption("--cases", None) or OPEN_CASES
    metafunc.parametrize(
        ("area", "case"),
        [
            pytest.param(file.area, case, id=f"{file.name}/{case['id']}")
            for file in case_files(folder)
            for case in file.cases
        ],
    )


def _outcome(area: str, case_id: str) -> str:
    if not_applicable(area, case_id) is not None:
        return "not applicable"
    return "passed" if difference(area, case_id) is None else "different on purpose"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    params = getattr(getattr(item, "callspec", None), "params", {})
    if report.when == "call" and params.keys() == {"area", "case"}:
        outcome = "failed" if report.failed else _outcome(params["area"], params["case"]["id"])
        item.config.stash.setdefault(_counted, Counter())[item.name.partition("[")[2].partition("/")[0], outcome] += 1
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counted = config.stash.get(_counted, Counter())
    if counted:
        terminalreporter.section("conformance")
    for name in sorted({name for name, _ in counted}):
        figures = (f"{counted[name, outcome]} {outcome}" for outcome in OUTCOMES)
        terminalreporter.line(f"{name}: {', '.join(figures)}")
