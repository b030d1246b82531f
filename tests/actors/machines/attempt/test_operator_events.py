"""A task handles a coordinator's events in a separate stage before a barrier, and sends a function's events after the
function's stage.
"""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.events import StartTask
from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.attempt.commands import HandleOperatorEvents, ProcessBatch, SnapshotState
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MIN, EndOfData
from flykka.messages.tasks.operator_event import (
    AggregateResult,
    GlobalAggregateResults,
    OperatorEvents,
    SendOperatorEvents,
    SentByFunction,
)
from tests.actors.machines.attempt.attempt_machine import (
    Harness,
    barrier,
    batch,
    descriptor,
    finished,
    to_bridge,
    to_job_master,
)

DESCRIPTOR = descriptor(OperatorKind.PROCESS, channels=1)
OPERATOR = DESCRIPTOR.vertex.operators[0].operator_id
ATTEMPT = DESCRIPTOR.attempt


def opened() -> Harness:
    task = Harness(DESCRIPTOR)
    task.feed(StartTask(), ChainOpened())
    return task


def events(*sent: bytes) -> OperatorEvents:
    return OperatorEvents(attempt=ATTEMPT, operator_id=OPERATOR, events=sent)


def handles(stage: int, *sent: bytes) -> HandleOperatorEvents:
    return HandleOperatorEvents(
        stage=stage, operator_id=OPERATOR, events=sent, watermark_ms=WATERMARK_MIN, processing_time_ms=1000
    )


def sends(stage: int, event: bytes) -> StageResult:
    return replace(finished(stage), sent=(SentByFunction(operator_id=OPERATOR, events=(event,)),))


def sent(event: bytes, *, behind: int) -> SendOperatorEvents:
    function = SentByFunction(operator_id=OPERATOR, events=(event,))
    return SendOperatorEvents(attempt=ATTEMPT, checkpoint_id=behind, sent=function)


def operator_events(task_effects: list[object]) -> list[object]:
    return [message for message in task_effects if isinstance(message, SendOperatorEvents)]


def test_events_are_handled_at_once_if_there_is_room_for_a_stage() -> None:
    assert to_bridge(opened().feed(events(b"a", b"b"))) == [handles(0, b"a", b"b")]


def test_events_received_while_stages_are_full_are_handled_together() -> None:
    task = opened()
    task.feed(events(b"a"), events(b"b"))
    waiting = [*task.feed(events(b"c")), *task.feed(events(b"d")), *task.arrive(0, batch("x"))]

    assert to_bridge(waiting) == []
    assert to_bridge(task.feed(finished(0))) == [handles(1, b"b")]
    together, run = to_bridge(task.feed(finished(1)))
    assert together == handles(2, b"c", b"d")
    assert isinstance(run, ProcessBatch)


def test_waiting_events_are_handled_before_the_snapshot() -> None:
    task = opened()
    task.arrive(0, batch("a"), batch("b"))
    task.feed(events(b"x"))
    task.arrive(0, barrier(1))

    begun = to_bridge([*task.feed(finished(0)), *task.feed(finished(1)), *task.feed(finished(2))])

    assert [type(command) for command in begun] == [HandleOperatorEvents, SnapshotState]


def test_a_function_event_carries_the_id_of_the_barrier_before_it() -> None:
    task = opened()
    task.arrive(0, batch("a"))
    before = task.feed(sends(0, b"before"))
    task.arrive(0, barrier(1))
    task.feed(finished(1))
    task.arrive(0, batch("b"))
    behind = task.feed(sends(2, b"behind"))

    assert operator_events(list(to_job_master(before))) == [sent(b"before", behind=0)]
    assert operator_events(list(to_job_master(behind))) == [sent(b"behind", behind=1)]


def test_aggregate_results_are_passed_to_the_next_stage_only() -> None:
    task = opened()
    old, new = (AggregateResult(name="least", result=result) for result in (b"1", b"2"))
    for result in (old, new):
        task.feed(GlobalAggregateResults(attempt=ATTEMPT, results=(result,)))

    first, second = to_bridge(task.arrive(0, batch("a"), batch("b")))

    assert isinstance(first, ProcessBatch)
    assert isinstance(second, ProcessBatch)
    assert first.aggregates == (new,)
    assert second.aggregates == ()


def test_events_after_the_end_of_data_are_not_handled() -> None:
    task = opened()
    task.arrive(0, EndOfData())

    assert to_bridge(task.feed(events(b"late"))) == []
