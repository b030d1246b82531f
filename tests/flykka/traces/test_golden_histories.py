"""The stories and diagrams of the golden histories: every recorded history can be read."""

from __future__ import annotations

import pytest

from flykka.cli.trace.stats import TraceStatistics
from flykka.traces.actor_directory import ActorKind, kind_of
from flykka.traces.trace import Trace
from tests.histories import HISTORIES

SOME = ("declined-and-failed", "killed-task-manager", "savepoints", "timers")
TRACES = [
    pytest.param(path, marks=() if path.stem in SOME else pytest.mark.long)
    for path in sorted(HISTORIES.glob("*.trace"))
]
FEW = 3


@pytest.fixture(params=TRACES, ids=lambda path: path.stem)
def history(request: pytest.FixtureRequest) -> Trace:
    return Trace.open(request.param)


@pytest.mark.slow
def test_every_job_has_a_story_to_its_end(history: Trace) -> None:
    masters = {turn.recipient.path for turn in history if kind_of(turn.recipient.path) is ActorKind.JOB_MASTER}
    jobs = sorted(path.rpartition("/job-")[2] for path in masters)

    stories = [history.story(job=job) for job in jobs]

    assert stories
    assert {story.outcome for story in stories} <= {"FINISHED", "FAILED", "CANCELED"}


@pytest.mark.slow
def test_every_checkpoint_story_agrees_with_the_statistics(history: Trace) -> None:
    checkpoints = TraceStatistics.from_records(history.records()).in_order()[:FEW]

    for job_id, checkpoint in checkpoints:
        story = history.story(checkpoint=checkpoint.checkpoint_id, job=job_id)
        state = "COMPLETED" if checkpoint.reason is None else f"ABORTED, {checkpoint.reason}"
        assert story.outcome.startswith(state)
        # A checkpoint that is aborted at its trigger may have ended before the first step of the trigger.
        is_given_up_at_once = checkpoint.reason is not None and checkpoint.duration_ms == 0
        assert story.lines()[0].phase in (("trigger", "end") if is_given_up_at_once else ("trigger",))


@pytest.mark.slow
def test_every_turn_can_be_drawn(history: Trace) -> None:
    assert history.to_html(collapse=("heartbeats",), last=2_000)
    assert history.to_mermaid(last=200)
