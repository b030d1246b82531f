"""Area 01, component `pending`: the end of a pending checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.pending import PendingCheckpoint
from flykka.actors.machines.checkpoint.properties import for_checkpoint, for_savepoint
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointTimedOut,
    StopCheckpointRequest,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task, snapshot
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.words import reason

GIVEN = {"component", "forced", "tasks", "collected_states", "kind"}


def run_case(case: Case) -> None:
    pending = _Pending(case)
    for step in case["steps"]:
        pending.do(step)
        for word, value in step.get("want", {}).items():
            assert pending.shows(word, value) == value, word
    for word, value in case["expect"].items():
        assert pending.shows(word, value) == value, word


class _Pending:
    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, GIVEN)
        collected = given.get("collected_states", ())
        # If the case gives no task count, one task does not acknowledge, because the case needs a pending checkpoint.
        tasks = [planned_task(str(number)) for number in range(given.get("tasks", len(collected) + 1))]
        self._world = Coordination(*tasks, storage_answers=False, tolerable_failures=1_000)
        self._begin(given.get("kind", "checkpoint"), forced=given.get("forced", False))
        self._pending: PendingCheckpoint = self._world.machine.pending[1]
        self._error: str | None = None
        for number, name in enumerate(collected):
            self._world.acknowledge(str(number), 1, snapshot(exclusive=[name]))

    def do(self, step: dict[str, Any]) -> None:
        only_known_words("step", step, {"do", "task", "state", "reason", "want"})
        match step["do"]:
            case "ack":
                state = None if step.get("state") is None else snapshot()
                self._world.acknowledge(str(step["task"]), 1, state)
            case "abort":
                self._expect_legal(lambda: self._abort(step["reason"]))
            case "finalize":
                self._expect_legal(lambda: self._world.written(1))
            case "run_async_cleanup":
                pass  # Deletions are requested at once.
            case "set_timeout_handle":
                pass  # A pending checkpoint has its timeout from the start.
            case word:
                raise UnknownWordError(word)

    def shows(self, word: str, value: Any) -> Any:
        harness = self._world
        match word:
            case "discarded" if isinstance(value, bool):
                return not harness.machine.pending
            case "fully_acknowledged":
                return len(harness.effects(events.WriteMetadata)) == 1
            case "future":
                return _future(harness)
            case "discarded":
                return harness.disposed()
            case "accepted":
                return "timeout-1" in harness.timers
            case "timeout_cancelled":
                return not harness.timers
            case "operator_states_empty":
                [written] = harness.effects(events.WriteMetadata)
                return all(entry.state is None for entry in written.checkpoint.task_states)
            case "can_be_subsumed":
                return self._pending.properties.can_be_subsumed
            case "error":
                return self._error
            case _:
                raise UnknownWordError(word)

    def _begin(self, kind: str, *, forced: bool) -> None:
        match kind:
            case "checkpoint":
                self._world.trigger(for_checkpoint(forced=forced))
            case "savepoint":
                self._world.trigger(for_savepoint(forced=forced))
            case "sync_savepoint":
                self._world.handle(StopCheckpointRequest(job_id=JOB, target_location="savepoint"))
            case _:
                raise UnknownWordError(kind)

    def _abort(self, why: str) -> None:
        expired = reason(why) is reason("CHECKPOINT_EXPIRED")
        event = (
            CheckpointTimedOut(checkpoint_id=1) if expired else AbortPendingCheckpoints(job_id=JOB, reason=reason(why))
        )
        self._world.handle(event)

    def _expect_legal(self, act: Callable[[], object]) -> None:
        try:
            act()
        except AssertionError:
            # An impossible state is an AssertionError in flykka, and an IllegalStateException in Flink.
            self._error = "illegal state"


def _future(harness: Coordination) -> str:
    if harness.effects(CheckpointCompleted):
        return "done"
    return "failed" if harness.effects(CheckpointAborted) else "open"
