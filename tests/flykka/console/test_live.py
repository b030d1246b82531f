"""Pictures at the bottom of a terminal, and the lines printed above them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console as RichConsole

from flykka.console.live import LiveScreen, can_be_live
from flykka.messages.attempt.answers import WorkProgress
from flykka.messages.monitoring.job_details import JobDetails
from tests.flykka.console.pictures import DETAILS


@pytest.fixture
def terminal() -> RichConsole:
    return RichConsole(file=StringIO(), force_terminal=True, color_system=None, width=60, height=20)


@pytest.fixture
def screen(terminal: RichConsole) -> Iterator[LiveScreen]:
    made = LiveScreen(terminal)
    yield made
    made.close()


def terminal_text(terminal: RichConsole) -> str:
    assert isinstance(terminal.file, StringIO)
    return terminal.file.getvalue()


def first() -> JobDetails:
    return replace(DETAILS, name="first")


def second_details() -> JobDetails:
    return replace(DETAILS, name="second")


def test_a_job_is_drawn_at_once(screen: LiveScreen, terminal: RichConsole) -> None:
    screen.show(first)

    assert "first  RUNNING" in terminal_text(terminal)


def test_a_job_is_drawn_with_its_long_running_spark_work(screen: LiveScreen, terminal: RichConsole) -> None:
    opening = WorkProgress(piece=1, what="opening", age_ms=7_000, tasks=8, tasks_done=3)

    screen.show(first, lambda: (opening,))

    assert "3 of 8 Spark tasks, 7 s into" in terminal_text(terminal)


def test_python_output_is_printed_above_the_picture(screen: LiveScreen, terminal: RichConsole) -> None:
    screen.show(first)

    print("from the app")
    print("a warning", file=sys.stderr)

    drawn = terminal_text(terminal)
    assert drawn.index("from the app") < drawn.rindex("first  RUNNING")
    assert drawn.index("a warning") < drawn.rindex("first  RUNNING")


def test_the_last_picture_stays_and_the_terminal_is_restored(screen: LiveScreen, terminal: RichConsole) -> None:
    before = sys.stdout, sys.stderr
    names = ["begun"]

    def job() -> JobDetails:
        return replace(DETAILS, name=names[-1])

    screen.show(job)
    names.append("ended")
    screen.leave(job)
    terminal.print("afterwards")

    drawn = terminal_text(terminal)
    assert drawn.rindex("ended  RUNNING") < drawn.rindex("afterwards")
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 1
    assert (sys.stdout, sys.stderr) == before


def test_two_jobs_are_drawn_until_each_has_ended(screen: LiveScreen, terminal: RichConsole) -> None:
    screen.show(first)
    screen.show(second_details)
    screen.leave(first)
    between = len(terminal_text(terminal))
    screen.leave(second_details)

    assert "first" not in terminal_text(terminal)[between:]
    assert "second  RUNNING" in terminal_text(terminal)[between:]


def test_removing_a_job_that_is_not_shown_has_no_effect(screen: LiveScreen, terminal: RichConsole) -> None:
    screen.show(first)

    screen.leave(second_details)
    screen.leave(first)
    screen.leave(first)

    assert terminal_text(terminal).endswith("\x1b[?25h")


def test_a_screen_can_show_another_job_after_its_last_one(screen: LiveScreen, terminal: RichConsole) -> None:
    screen.show(first)
    screen.leave(first)

    screen.show(second_details)

    assert "second  RUNNING" in terminal_text(terminal)


@pytest.mark.parametrize(("term", "live"), [("xterm-256color", True), ("dumb", False)])
def test_every_terminal_except_a_dumb_one_can_be_live(term: str, live: bool) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal:
        assert can_be_live(RichConsole(file=terminal, _environ={"TERM": term})) is live


def test_a_file_is_not_live_even_with_forced_colours() -> None:
    assert not can_be_live(RichConsole(file=StringIO(), _environ={"FORCE_COLOR": "1", "TERM": "xterm"}))
