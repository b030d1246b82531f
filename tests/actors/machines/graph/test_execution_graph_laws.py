"""Invariants of a job under any events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.graph.events import Event, GlobalFailureReported, RestoreStateReady, SchedulingRequested
from flykka.actors.machines.slots.slot_requests import (
    RequestSlots,
    ReturnSlot,
    SlotAllocated,
    SlotAllocationFailed,
    SlotsLost,
)
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.tasks.task import ExecutionState, NotifyEndOfData, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.graph.graphs import CANCEL, failure, slot
from tests.actors.machines.graph.running import Running

attempts = st.builds(
    lambda place, number: ExecutionAttemptId(f"job_{place}_{number}"),
    st.sampled_from(["source_0", "source_1", "sink_0"]),
    st.integers(0, 2),
)
failures = st.builds(failure, st.just("boom"), suppress_restarts=st.booleans())
several = st.lists(attempts, max_size=2).map(tuple)
happenings = st.one_of(
    st.builds(SchedulingRequested),
    st.builds(SlotAllocated, attempts=several, slot=st.just(slot())),
    st.builds(SlotAllocationFailed, attempts=several, cause=failures),
    st.builds(SlotsLost, attempts=several, cause=failures),
    st.builds(RestoreStateReady, version=st.integers(1, 3), checkpoint_id=st.just(None), states=st.just({})),
    st.builds(
        UpdateTaskExecutionState,
        state=st.builds(TaskExecutionState, attempt=attempts, state=st.sampled_from(ExecutionState), failure=failures),
    ),
    st.builds(NotifyEndOfData, attempt=attempts),
    st.builds(GlobalFailureReported, cause=failures, attempt=st.none() | attempts),
    st.just(CANCEL),
    st.builds(JobRestartDue, version=st.integers(1, 3)),
)


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_no_sequence_of_events_breaks_an_invariant_or_leaves_a_terminal_state(events: list[Event]) -> None:
    running = Running()
    ended: JobStatus | None = None

    for event in events:
        running.tell(event)
        assert ended is None or running.graph.status is ended
        ended = running.graph.status if running.graph.status in JOB_TERMINAL else None


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_every_attempt_that_requests_a_slot_returns_it_once(events: list[Event]) -> None:
    running = Running()
    running.deploy()

    for event in events:
        running.tell(event)
    running.tell(CANCEL)
    running.report_all(ExecutionState.CANCELED)

    asked = [request.attempt for effect in running.effects_of(RequestSlots) for request in effect.requests]
    assert sorted(asked) == sorted(back.attempt for back in running.effects_of(ReturnSlot))


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_at_most_one_attempt_of_a_subtask_is_alive(events: list[Event]) -> None:
    running = Running()
    running.deploy()

    for event in events:
        running.tell(event)

    for vertex_id, parallelism in (("source", 2), ("sink", 1)):
        for subtask in range(parallelism):
            assert all(prior.is_terminal for prior in running.graph.subtask(JobVertexId(vertex_id), subtask).prior)
