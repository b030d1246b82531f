"""Tasks restore their watermark, so that rows that were late before a restart are late after the restart too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.messages.attempt.answers import ChainOpened, ChannelStateWritten, StageResult
from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, AlignmentType, CheckpointOptions
from flykka.messages.graph.job_graph import FiringMode, MonotonyViolationHandler, OperatorKind
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    OperatorSubtaskState,
    PartitionWatermark,
    TaskStateSnapshot,
    WatermarkState,
)
from flykka.messages.tasks.exchange import WATERMARK_MIN, CheckpointBarrier, PartitionRequest, Watermark
from flykka.messages.tasks.source import PartitionTime
from flykka.messages.tasks.task import IdleDue
from tests.actors.machines.attempt.attempt_machine import (
    CONSUMER,
    OUT,
    SOURCE,
    Harness,
    barrier,
    batch,
    descriptor,
    down,
    durable,
    finished,
    recovering,
    source,
    splits,
    to_bridge,
    to_job_master,
    trigger,
    window,
)

FOLDER = ExclusiveStateHandle(path="in-flight", size_bytes=0)
REQUEST = PartitionRequest(partition_id=OUT, subpartition=0, credit=8, consumer=CONSUMER)


def checkpointed_watermarks(effects: list[TaskEffect]) -> list[WatermarkState]:
    acknowledged = [each for each in to_job_master(effects) if isinstance(each, AcknowledgeCheckpoint)]
    assert acknowledged, effects
    states = [state for each in acknowledged if each.state is not None for state in each.state.operators]
    return [state.watermark for state in states if state.watermark is not None]


def at(watermark_ms: int, **partitions: int) -> WatermarkState:
    each = (PartitionWatermark(partition=name, watermark_ms=ms) for name, ms in partitions.items())
    return WatermarkState(watermark_ms=watermark_ms, partitions=tuple(each))


def restored(
    kind: OperatorKind,
    watermark: WatermarkState,
    opened: ChainOpened | None = None,
    *,
    channels: int = 0,
    **vertex: Any,
) -> tuple[Harness, list[TaskEffect]]:
    state = OperatorSubtaskState(operator_id=SOURCE, watermark=watermark)
    deployed = descriptor(kind, channels=channels, outputs=1, **{"watermark_delay_ms": 100, **vertex})
    deployed = replace(deployed, restore=TaskStateSnapshot(operators=(state,)), restored_checkpoint_id=1)
    task = Harness(deployed if opened is None else recovering(deployed, inputs=1, outputs=1))
    return task, task.feed(StartTask(), opened or ChainOpened(), REQUEST)


def test_the_watermark_of_an_unprocessed_batch_belongs_to_the_next_checkpoint() -> None:
    task = source()
    task.feed(splits("a"), trigger(1))

    effects = task.feed(finished(0, event_time_max=1000), finished(1), durable(1))

    assert checkpointed_watermarks(effects) == [at(899)]


def test_a_watermark_after_the_barrier_does_not_belong_to_the_checkpoint() -> None:
    task = window(FiringMode.ON_WATERMARK)
    task.arrive(0, Watermark(timestamp_ms=500), barrier(1), Watermark(timestamp_ms=900))

    effects = task.feed(finished(0), finished(1), durable(1))

    assert checkpointed_watermarks(effects) == [at(500)]


def test_a_drained_task_checkpoints_no_watermark() -> None:
    task = source()
    task.feed(splits("a"), finished(0, event_time_max=1000), trigger(1, drain=True))

    assert checkpointed_watermarks(task.feed(finished(1), durable(1))) == []


def test_a_restored_source_sends_its_watermark_before_its_rows() -> None:
    task, first = restored(OperatorKind.SOURCE, at(899))

    late = task.feed(splits("a"), finished(0, "late", event_time_max=700))
    ahead = task.feed(splits("b"), finished(1, "rows", event_time_max=2000))

    assert down(first) == [Watermark(timestamp_ms=899)]
    assert down(late) == [batch("late")]
    assert down(ahead) == [batch("rows"), Watermark(timestamp_ms=1899)]


@pytest.mark.parametrize(
    "vertex",
    [{"punctuated_watermarks": True}, {"on_monotony_violation": MonotonyViolationHandler.LOG}, {}],
    ids=["punctuated", "ascending", "bounded"],
)
def test_every_watermark_generator_resumes_from_its_watermark(vertex: dict[str, Any]) -> None:
    task, first = restored(OperatorKind.SOURCE, at(899), **vertex)

    checkpointed = task.feed(trigger(2), finished(0), durable(2))

    assert (down(first), checkpointed_watermarks(checkpointed)) == ([Watermark(timestamp_ms=899)], [at(899)])


def test_a_restored_quiet_source_advances_with_the_clock_without_reading() -> None:
    task, _ = restored(OperatorKind.SOURCE, at(899), quiet_period_ms=300)

    task.now += 300

    assert down(task.feed(IdleDue())) == [Watermark(timestamp_ms=899 + 300)]


def test_partitions_resume_from_their_own_watermarks() -> None:
    task, _ = restored(OperatorKind.SOURCE, at(400, a=400, b=900))
    task.feed(splits("a"))

    times = (PartitionTime(partition="a", latest_ms=700), PartitionTime(partition="b"))
    effects = task.feed(StageResult(stage=0, partition_times=times))

    assert down(effects) == [Watermark(timestamp_ms=599)]


def test_recovered_in_flight_rows_are_processed_at_the_restored_watermark() -> None:
    recovered = ChainOpened(recovered=(batch("in"), batch("out")))

    _, first = restored(OperatorKind.KEYED_PROCESS, at(500), recovered, channels=2)

    assert down(first) == [batch("out"), Watermark(timestamp_ms=500)]
    assert [each.watermark_ms for each in to_bridge(first) if isinstance(each, ProcessBatch)] == [500]


def test_a_restored_operator_advances_when_all_its_inputs_have_advanced() -> None:
    task, _ = restored(OperatorKind.STATELESS, at(500), channels=2)

    behind = task.arrive(0, Watermark(timestamp_ms=400), Watermark(timestamp_ms=600))
    beyond = task.arrive(1, Watermark(timestamp_ms=550))

    assert (down(behind), down(beyond)) == ([], [Watermark(timestamp_ms=550)])


def test_a_task_whose_event_time_restarts_has_no_watermark() -> None:
    task, first = restored(OperatorKind.KEYED_PROCESS, at(WATERMARK_MIN), channels=1)

    (run,) = to_bridge(task.arrive(0, batch("a")))

    assert isinstance(run, ProcessBatch)
    assert (down(first), run.watermark_ms) == ([], WATERMARK_MIN)


def test_an_unaligned_snapshot_contains_the_processed_watermark() -> None:
    task = window(FiringMode.ON_CHECKPOINT)
    task.arrive(0, Watermark(timestamp_ms=500), batch("a"), batch("b"), batch("c"), Watermark(timestamp_ms=900))
    options = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
    overtaking = CheckpointBarrier(checkpoint_id=1, timestamp_ms=7, options=options)

    task.arrive(0, overtaking)
    effects = task.feed(finished(0), finished(1), finished(2), durable(1))

    assert checkpointed_watermarks(
        [
            *effects,
            *task.feed(ChannelStateWritten(checkpoint_id=1, folders=(FOLDER,))),
        ]
    ) == [at(500)]
