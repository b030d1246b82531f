"""A fork in a notebook: its display shows its start before the run, and both outcomes afterwards."""

from __future__ import annotations

import pytest

from flykka import Replayer
from flykka.notebook.runs import fork_bundle, fork_run_bundle
from flykka.replay.job_fork import JobFork
from flykka.runtime.replay.fork.fork import ForkRun
from tests.flykka.notebook.html_reader import Reader
from tests.histories import HISTORIES

HISTORY = HISTORIES / "killed-task-manager.trace"


@pytest.fixture
def fork() -> JobFork:
    """A fork right before a checkpoint is triggered."""
    session = Replayer().session(HISTORY)
    session.run_until("CheckpointCoordinator <- PeriodicTriggerDue")
    return session.fork()


@pytest.mark.slow
def test_a_fork_before_its_run_displays_its_start_and_next_calls(fork: JobFork) -> None:
    page = Reader(fork_bundle(fork)["text/html"])

    assert "checkpoint-coordinator <- PeriodicTriggerDue" in page.text
    assert "crash(path)" in page.text


@pytest.mark.slow
def test_a_fork_after_its_run_shows_both_outcomes_side_by_side(fork: JobFork) -> None:
    fork.crash("task-manager-1")
    run = fork.run()

    rows = {row[0].strip(): row[1:] for row in Reader(fork_bundle(fork)["text/html"]).rows}
    assert rows[""] == ["recorded", "fork"]
    assert "task-manager-1" not in rows["lost"][0]
    assert "task-manager-1" in rows["lost"][1]
    assert rows["turns"][1] == f"{fork.outcome.turns:,}"
    assert fork_run_bundle(run)["text/plain"].startswith(f"fork: {run.turns:,} turns, ")


def test_actors_that_did_not_reply_in_a_fork_are_named() -> None:
    run = ForkRun(turns=3, duration_ms=2_000, ended="nothing is left to do", silent={"/user/shop": "Buy(item=fig)"})

    bundle = fork_run_bundle(run)

    assert "no answer was recorded for /user/shop: Buy(item=fig)" in Reader(bundle["text/html"]).text
    assert bundle["text/plain"].startswith("fork: 3 turns, 2.0 s of virtual time, nothing is left to do")
