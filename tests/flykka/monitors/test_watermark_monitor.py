"""A task's watermark never exceeds that of its slowest channel, and always reaches the watermark of the data that the
task has read.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.attempt.commands import AdvanceWatermark, ProcessBatch, ReadSplits
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot, WatermarkState
from flykka.messages.tasks.exchange import BufferResponse, Watermark, WatermarkStatus
from flykka.messages.tasks.source import AlignWatermark
from flykka.messages.tasks.task import ExecutionState, SubmitTask, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.monitors.watermarks import WatermarkMonitor
from flykka.runtime.trace.records import Turn
from tests.actors.machines.attempt.attempt_machine import SOURCE, descriptor
from tests.flykka.monitors.turns import (
    BRIDGE,
    JOB_MASTER,
    TASK,
    TASK_MANAGER,
    attempt,
    batch_ref,
    partition_request,
    receive_turn,
    turn,
    violations_of,
)

LEFT, RIGHT = ResultPartitionId("left:0"), ResultPartitionId("right:0")


OPENED = turn(TASK, ChainOpened(), partition_request(LEFT), partition_request(RIGHT))


def process_batch(name: str, watermark_ms: int) -> ProcessBatch:
    return ProcessBatch(stage=0, gate=0, batch=batch_ref(name), watermark_ms=watermark_ms)


def advanced(watermark_ms: int) -> AdvanceWatermark:
    return AdvanceWatermark(stage=0, watermark_ms=watermark_ms)


LEFT_AT_9 = receive_turn(LEFT, Watermark(timestamp_ms=9))
RIGHT_AT_5 = receive_turn(RIGHT, Watermark(timestamp_ms=5))


@pytest.mark.parametrize("said", [advanced(6), process_batch("b", 6)], ids=str)
def test_a_task_must_not_be_ahead_of_its_slowest_input(said: Message) -> None:
    run = [OPENED, LEFT_AT_9, RIGHT_AT_5, receive_turn(LEFT, batch_ref("b"), said)]

    (text,) = violations_of(WatermarkMonitor(), *run)

    assert text.endswith(" watermark 6, and subpartition 0 of right:0 has reached 5")


def test_a_task_may_emit_the_minimum_of_its_inputs() -> None:
    run = [OPENED, LEFT_AT_9, RIGHT_AT_5, receive_turn(LEFT, batch_ref("b"), advanced(5), process_batch("b", 5))]

    assert violations_of(WatermarkMonitor(), *run) == []


def test_a_task_must_not_lag_behind_the_minimum_of_its_inputs() -> None:
    run = [
        *(OPENED, LEFT_AT_9, RIGHT_AT_5),
        receive_turn(LEFT, batch_ref("l"), process_batch("l", 5)),
        receive_turn(RIGHT, batch_ref("r"), process_batch("r", 4)),
    ]

    assert violations_of(WatermarkMonitor(), *run) == [
        "r is read at watermark 4, although all channels had reached 5 before their last batches"
    ]


def test_an_idle_input_may_be_ignored() -> None:
    run = [OPENED, LEFT_AT_9, RIGHT_AT_5, receive_turn(RIGHT, WatermarkStatus(idle=True), advanced(9))]

    assert violations_of(WatermarkMonitor(), *run) == []


def test_an_aligned_source_must_not_read_beyond_its_limit() -> None:
    def run(max_watermark_ms: int) -> list[str]:
        said = BufferResponse(
            partition_id=LEFT, subpartition=0, sequence_number=0, buffer=Watermark(timestamp_ms=9), backlog=0
        )
        align = AlignWatermark(attempt=attempt(), max_watermark_ms=max_watermark_ms)
        return violations_of(
            WatermarkMonitor(),
            turn(TASK, ChainOpened()),
            turn(TASK, StageResult(stage=0), (TASK_MANAGER, said)),
            turn(TASK, align, (BRIDGE, ReadSplits(stage=1, splits=()))),
        )

    assert run(9) == []
    assert run(8) == ["the source reads at watermark 9, beyond its limit 8"]


def turns_of_restored_task(watermark_ms: int) -> list[Turn]:
    state = OperatorSubtaskState(operator_id=SOURCE, watermark=WatermarkState(watermark_ms=watermark_ms))
    deployed = descriptor(OperatorKind.WINDOW_AGGREGATE)
    deployed = replace(deployed, attempt=attempt(), restore=TaskStateSnapshot(operators=(state,)))
    running = UpdateTaskExecutionState(state=TaskExecutionState(attempt=attempt(), state=ExecutionState.RUNNING))
    return [
        turn(JOB_MASTER, StageResult(stage=0), (TASK_MANAGER, SubmitTask(descriptor=deployed, job_master=JOB_MASTER))),
        turn(TASK, ChainOpened(), (JOB_MASTER, running), partition_request(LEFT)),
    ]


def test_a_task_may_start_with_the_watermark_of_its_checkpoint() -> None:
    assert (
        violations_of(
            WatermarkMonitor(), *turns_of_restored_task(7), receive_turn(LEFT, batch_ref("b"), process_batch("b", 7))
        )
        == []
    )


def test_a_row_late_before_a_restart_must_stay_late() -> None:
    assert violations_of(
        WatermarkMonitor(), *turns_of_restored_task(7), receive_turn(LEFT, batch_ref("b"), process_batch("b", 6))
    ) == ["b is read at watermark 6, although all channels had reached 7 before their last batches"]


def test_a_task_without_a_recorded_start_is_not_checked() -> None:
    assert violations_of(WatermarkMonitor(), LEFT_AT_9, turn(TASK, StageResult(stage=0), (BRIDGE, advanced(9)))) == []
