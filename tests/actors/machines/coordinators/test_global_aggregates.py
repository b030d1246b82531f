"""Updates of global aggregates are batched, and results are sent to all subtasks that add to the same aggregate."""

from __future__ import annotations

from flykka.actors.machines.coordinators.operator_coordinator_holder import GlobalAggregates, UpdateAggregates
from flykka.actors.machines.effects import Ignore, Tell
from flykka.messages.tasks.operator_event import (
    AggregateResult,
    AggregateUpdate,
    GlobalAggregateResults,
    GlobalAggregatesUpdated,
    SendOperatorEvents,
    SentByFunction,
)
from flykka.messages.wire.ids import ExecutionAttemptId, OperatorId


def update(name: str, value: bytes) -> AggregateUpdate:
    return AggregateUpdate(name=name, value=value)


def updates_sent(attempt: str, *updates: AggregateUpdate) -> SendOperatorEvents:
    function = SentByFunction(operator_id=OperatorId("rows"), updates=updates)
    return SendOperatorEvents(attempt=ExecutionAttemptId(attempt), checkpoint_id=0, sent=function)


def updated(*results: tuple[str, bytes]) -> GlobalAggregatesUpdated:
    return GlobalAggregatesUpdated(results=tuple(AggregateResult(name=name, result=result) for name, result in results))


def results_for_subtask(attempt: str, *results: tuple[str, bytes]) -> Tell[ExecutionAttemptId]:
    message = GlobalAggregateResults(attempt=ExecutionAttemptId(attempt), results=updated(*results).results)
    return Tell(to=message.attempt, message=message)


def test_values_added_during_an_update_wait_for_the_next_batch() -> None:
    aggregates = GlobalAggregates()

    assert aggregates.on_updates(updates_sent("a", update("least", b"1"))) == [
        UpdateAggregates(updates=(update("least", b"1"),))
    ]
    assert aggregates.on_updates(updates_sent("b", update("least", b"2"))) == []
    assert aggregates.on_updates(updates_sent("b", update("most", b"3"))) == []
    aggregates.check()

    effects = aggregates.on_updated(updated(("least", b"1")))

    assert effects == [
        results_for_subtask("a", ("least", b"1")),
        results_for_subtask("b", ("least", b"1")),
        UpdateAggregates(updates=(update("least", b"2"), update("most", b"3"))),
    ]
    assert aggregates.on_updated(updated(("least", b"1"), ("most", b"3"))) == [
        results_for_subtask("a", ("least", b"1")),
        results_for_subtask("b", ("least", b"1"), ("most", b"3")),
    ]


def test_an_ended_attempt_gets_no_aggregate_result() -> None:
    aggregates = GlobalAggregates()
    aggregates.on_updates(updates_sent("a", update("least", b"1")))

    aggregates.attempt_ended(ExecutionAttemptId("a"))

    assert aggregates.on_updated(updated(("least", b"1"))) == []


def test_waiting_updates_are_sent_after_a_failed_update() -> None:
    aggregates = GlobalAggregates()
    aggregates.on_updates(updates_sent("a", update("least", b"1")))
    aggregates.on_updates(updates_sent("a", update("least", b"2")))

    assert aggregates.on_failed() == [UpdateAggregates(updates=(update("least", b"2"),))]
    assert aggregates.on_failed() == []
    assert aggregates.on_updated(updated()) == [Ignore(reason="no update of an aggregate is running")]
