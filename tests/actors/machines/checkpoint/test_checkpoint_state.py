"""The state of a checkpoint is discarded if it is aborted, late, duplicate or subsumed."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.properties import for_final_checkpoint
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointComplete,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CheckpointTimedOut,
    MetadataWriteFailed,
)
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState, SharedStateHandle
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    complete_checkpoint,
    shared,
    snapshot,
    two_tasks,
)


def checkpoint_aborted(checkpoint_id: int, reason: CheckpointDeclineReason) -> CheckpointAborted:
    return CheckpointAborted(job_id=JOB, checkpoint_id=checkpoint_id, reason=reason, timestamp_ms=0)


def test_a_checkpoint_being_added_to_the_store_cannot_be_aborted() -> None:
    harness = two_tasks(storage_answers=False, tolerable_failures=1)
    complete_checkpoint(harness, 1, shared=["x"], exclusive=["s"])

    late = harness.handle(CheckpointTimedOut(checkpoint_id=1))
    late += harness.decline("sink", 1)
    late += harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    harness.written(1)

    assert {type(effect) for effect in late} == {Ignore}
    assert harness.completed() == [1]
    assert harness.disposed() == []


def test_a_checkpoint_that_cannot_be_written_is_aborted() -> None:
    harness = two_tasks(storage_answers=False, tolerable_failures=1)
    complete_checkpoint(harness, 1, exclusive=["s"])

    made = harness.handle(_write_failed(1))

    failed = CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE
    assert [str(each.failure) for each in made if isinstance(each, CheckpointAborted)] == [
        f"{failed}: OSError: disk full"
    ]
    assert harness.completed() == []
    assert harness.disposed() == ["s"]


def test_a_checkpoint_stored_after_a_newer_one_is_subsumed() -> None:
    harness = two_tasks(storage_answers=False)
    complete_checkpoint(harness, 1, exclusive=["s 1"], shared=["x", "y"])
    complete_checkpoint(harness, 2, exclusive=["s 2"], shared=["y", "z"])
    newer = harness.written(2)

    older = harness.written(1)

    assert checkpoint_aborted(1, CheckpointDeclineReason.SUBSUMED) in older
    assert not [effect for effect in older if isinstance(effect, NotifyCheckpointComplete)]
    assert not [effect for effect in newer if isinstance(effect, events.Dispose | CheckpointAborted)]
    assert events.Dispose(retained=(1,), checkpoints=("chk-1",)) in older
    assert harness.completed() == [2]
    assert harness.disposed() == ["s 1", "chk-1"]


def test_a_newer_checkpoint_subsumes_the_older_pending_ones() -> None:
    harness = two_tasks()
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))
    harness.trigger()

    harness.acknowledge("source", 2)
    harness.acknowledge("sink", 2)

    assert harness.completed() == [2]
    assert checkpoint_aborted(1, CheckpointDeclineReason.SUBSUMED) in harness.log
    assert harness.disposed() == ["s"]
    assert harness.effects(CheckpointFailuresExceeded) == []


def test_state_of_a_younger_pending_checkpoint_survives_earlier_completions() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, shared=["x"])
    harness.trigger()
    harness.trigger()
    for checkpoint_id, state in ((2, snapshot(shared=["x again"])), (3, snapshot(shared=["x"]))):
        harness.acknowledge("source", checkpoint_id, state)
        harness.acknowledge("sink", checkpoint_id)

    assert harness.completed() == [3]
    assert "x" not in harness.disposed()


def test_state_of_a_final_checkpoint_survives_the_completion_of_a_younger_one() -> None:
    harness = two_tasks()
    harness.trigger(for_final_checkpoint())
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(shared=["x"]))
    for name in ("source", "sink"):
        harness.acknowledge(name, 2)
    harness.acknowledge("sink", 1)

    assert set(harness.completed()) <= {1, 2}
    assert "x" not in harness.disposed()


def test_a_duplicate_is_not_discarded_even_after_the_checkpoint_has_ended() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, exclusive=["s"], shared=["x"])

    again = harness.acknowledge("sink", 1, snapshot(exclusive=["s"], shared=["x"]))

    assert [type(effect) for effect in again] == [Ignore]


def test_late_state_is_discarded_once() -> None:
    harness = two_tasks()
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))
    harness.decline("sink", 1)

    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))
    harness.acknowledge("sink", 1, snapshot(exclusive=["late"]))

    assert harness.disposed() == ["s", "late"]


def test_a_live_attempt_may_reuse_shared_state_of_an_aborted_checkpoint() -> None:
    harness = two_tasks(tolerable_failures=9)
    harness.trigger()
    harness.decline("source", 1)
    harness.acknowledge("sink", 1, snapshot(shared=["x"]))

    complete_checkpoint(harness, 2, shared=["x", "y"])

    assert harness.disposed() == []
    assert list(harness.written_checkpoints()[0].task_states[1].state.operators[0].shared) == [  # type: ignore[union-attr]
        shared("x"),
        shared("y"),
    ]


def test_shared_state_of_ended_attempts_is_deleted_at_once() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, shared=["x"])

    harness.acknowledge("former", 2, snapshot(shared=["x", "y"]))

    assert harness.disposed() == ["y"]


def test_shared_state_that_exists_already_is_registered_once() -> None:
    harness = two_tasks(retained=2)
    complete_checkpoint(harness, 1, shared=["x"])
    rewritten = SharedStateHandle(state_id="x", path="elsewhere", rows=1, size_bytes=1)

    harness.trigger()
    harness.acknowledge("source", 2)
    state = snapshot(shared=["x"])
    [operator] = state.operators
    harness.acknowledge("sink", 2, type(state)(operators=(_with_shared(operator, rewritten),)))

    assert harness.disposed() == ["elsewhere"]
    assert harness.written_checkpoints()[1].task_states[1].state == state


def test_subsuming_deletes_a_checkpoint_and_its_unshared_state() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, exclusive=["s"], shared=["x", "y"])

    complete_checkpoint(harness, 2, shared=["y"])

    [disposal] = harness.effects(events.Dispose)
    assert disposal == events.Dispose(
        retained=(1,), checkpoints=("chk-1",), state=(ExclusiveStateHandle(path="s", size_bytes=1), shared("x"))
    )


def test_messages_of_other_jobs_are_ignored() -> None:
    harness = two_tasks()
    harness.trigger()

    made = harness.acknowledge("sink", 1, snapshot(exclusive=["theirs"]), job=JobId("other"))

    assert [type(effect) for effect in made] == [Ignore]
    assert harness.machine.pending[1].awaited == {"source", "sink"}


def _write_failed(checkpoint_id: int) -> MetadataWriteFailed:
    cause = SerializedThrowable(type_name="OSError", message="disk full")
    return MetadataWriteFailed(checkpoint_id=checkpoint_id, cause=cause)


def _with_shared(state: OperatorSubtaskState, *handles: SharedStateHandle) -> OperatorSubtaskState:
    return replace(state, shared=handles)
