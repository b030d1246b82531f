"""Tests the operator chain of an attempt without Spark: when the chain emits, snapshots state and releases batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flykka.messages.attempt.commands import (
    ChannelStateRead,
    Lane,
    PrepareCommit,
    ProcessBatch,
    ReleaseBatches,
    SnapshotState,
    UpdateState,
)
from flykka.messages.checkpointing.checkpoint import CheckpointOptions, SnapshotType
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.operator_chain import BatchResult, OperatorChain
from tests.actors.machines.attempt.attempt_machine import ATTEMPT, batch, descriptor

Names = tuple[str, ...]
SNAPSHOT = SnapshotState(stage=2, checkpoint_id=1, options=CheckpointOptions(), watermark_ms=50)


class Noting(Operator[Names]):
    """Records its calls; if configured, its state changes with each batch."""

    def __init__(self, calls: list[str], *, updates_state: bool) -> None:
        super().__init__(OperatorId("noting"))
        self._calls = calls
        self._updates_state = updates_state

    def process_batch(self, element: Element[Names]) -> Output[Names]:
        return Output(rows=element.rows, updates_state=self._updates_state)

    def update_state(self, stage: int) -> None:
        self._calls.append(f"update {stage}")

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Names]:
        self._calls.append(f"fire {watermark_ms}")
        return Output(rows=("fired",))

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        self._calls.append(f"note {checkpoint_id}{' everything' if everything else ''}")


class Stateful(Noting):
    keeps_state = True


class Pending(Stateful):
    def before_snapshot(self, options: CheckpointOptions) -> Output[Names]:
        return Output(rows=("pending",), on_emitted=lambda: self._calls.append(f"emitted {options.snapshot_type}"))


class Chain(OperatorChain[Names]):
    """A chain whose rows are names, and which records its actions in order."""

    def __init__(
        self,
        *,
        keeps_state: bool = True,
        updates_state: bool = False,
        outputs: int = 0,
        kind: type[Stateful] = Stateful,
    ) -> None:
        self.calls: list[str] = []
        head = (kind if keeps_state else Noting)(self.calls, updates_state=updates_state)
        super().__init__(descriptor(OperatorKind.WINDOW_AGGREGATE, outputs=outputs), {head.operator_id: head})

    def emit(
        self, operator: Operator[Names], output: Output[Names], stage: int, read: Names | None = None
    ) -> BatchResult:
        self.calls.append(f"emit {' '.join(output.rows or ())}")
        return BatchResult(rows=len(output.rows or ()))

    def claim(self, batches: Sequence[BatchRef]) -> Names:
        return tuple(each.batch_id for each in batches)

    def release_batches(self, command: ReleaseBatches) -> None:
        assert command.holder == ATTEMPT
        self.calls.append(f"release {' '.join(command.batch_ids or ())}")

    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        return None

    def delete_from_savepoint(self, savepoint: str) -> None: ...


def process(stage: int) -> ProcessBatch:
    return ProcessBatch(stage=stage, gate=0, batch=batch("a"), watermark_ms=0, coalesced=(batch("b"),))


def test_batches_are_released_by_the_stage_that_read_them() -> None:
    chain = Chain()

    chain.process_batch(process(1))

    assert chain.calls == ["emit a b", "release a b"]


def test_batches_are_held_until_the_state_is_updated() -> None:
    chain = Chain(updates_state=True)

    chain.process_batch(process(1))
    before = list(chain.calls)
    chain.update_state(UpdateState(stage=1))

    assert before == ["emit a b"]
    assert chain.calls[1:] == ["update 1", "release a b"]


def test_rows_fired_by_a_checkpoint_leave_the_state_before_its_snapshot() -> None:
    chain = Chain(outputs=1)

    result = chain.snapshot_state(SNAPSHOT)
    chain.prepare_commit(PrepareCommit(checkpoint_id=1, staged=()))

    assert chain.calls == ["fire 50", "emit fired", "note 1"]
    assert (result.stage, result.rows_out) == (2, 1)


def test_a_chain_without_consumers_emits_fired_rows_when_the_commit_is_prepared() -> None:
    chain = Chain()

    result = chain.snapshot_state(SNAPSHOT)
    noted = list(chain.calls)
    prepared = chain.prepare_commit(PrepareCommit(checkpoint_id=1, staged=()))

    assert (noted, result.rows_out) == (["fire 50", "note 1"], 0)
    assert (chain.calls[2:], prepared.rows_out) == (["emit fired"], 1)


def test_a_checkpoint_without_a_watermark_fires_no_rows() -> None:
    chain = Chain(outputs=1)

    chain.snapshot_state(replace(SNAPSHOT, watermark_ms=None))

    assert chain.calls == ["note 1"]


def test_a_savepoint_contains_all_state() -> None:
    chain = Chain()
    options = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT, target_location="/savepoint")

    chain.snapshot_state(replace(SNAPSHOT, options=options, watermark_ms=None))

    assert chain.calls == ["note 1 everything"]


@pytest.mark.parametrize(("keeps_state", "lane"), [(True, Lane.STAGES), (False, Lane.AT_ONCE)])
def test_a_barrier_of_a_stateless_chain_waits_for_no_thread(keeps_state: bool, lane: Lane) -> None:
    assert Chain(keeps_state=keeps_state).lane_of(SNAPSHOT) is lane


@pytest.mark.parametrize("outputs", [0, 1])
def test_pending_rows_are_emitted_before_the_state_is_recorded(outputs: int) -> None:
    chain = Chain(outputs=outputs, kind=Pending)

    result = chain.snapshot_state(replace(SNAPSHOT, watermark_ms=None))

    assert chain.calls == ["emit pending", "emitted CHECKPOINT", "note 1"]
    assert result.rows_out == 1
