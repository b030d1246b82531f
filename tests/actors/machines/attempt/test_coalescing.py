"""Small waiting batches are processed in one stage, and a source with consumers waits for more rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.attempt.inputs import COALESCED_BATCHES, COALESCED_BYTES
from flykka.actors.machines.attempt.source import LIMIT_START, MAX_PAUSE_MS, OPEN_BYTES
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.attempt.commands import AdvanceWatermark, ProcessBatch, ReadSplits, SnapshotState
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import (
    WATERMARK_MIN,
    BatchRef,
    EndOfData,
    EndOfPartition,
    MiniBatchDue,
    PartitionRequest,
    Watermark,
)
from flykka.messages.tasks.source import AddSplits, FileBatchSplit
from flykka.messages.tasks.task import MetricsDue, ReadDue, TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId, SplitId
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    CONSUMER,
    OUT,
    SOURCE,
    Harness,
    barrier,
    batch,
    descriptor,
    down,
    finished,
    metrics,
    recovering,
    to_bridge,
    trigger,
)

COALESCES = [OperatorKind.STATELESS, OperatorKind.SINK, OperatorKind.GROUP_AGGREGATE, OperatorKind.KEYED_PROCESS]


def reader(kind: OperatorKind = OperatorKind.SINK, channels: int = 2, outputs: int = 0) -> Harness:
    return running(replace(descriptor(kind, channels=channels, outputs=outputs), coalesces_batches=True))


def running(deployed: TaskDeploymentDescriptor) -> Harness:
    task = Harness(deployed)
    task.feed(StartTask(), ChainOpened())
    if deployed.outputs:
        task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=8, consumer=CONSUMER))
    return task


def large(name: str, size_bytes: int = COALESCED_BYTES) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=1, size_bytes=size_bytes)


def runs(effects: list[TaskEffect]) -> list[str]:
    started = [message for message in to_bridge(effects) if isinstance(message, ProcessBatch)]
    return ["".join(each.batch_id for each in run.batches) for run in started]


@pytest.mark.parametrize("kind", COALESCES)
def test_batches_that_wait_for_a_stage_are_processed_together(kind: OperatorKind) -> None:
    task = reader(kind)

    arrived = task.arrive(0, batch("a"), batch("b"))
    arrived += task.arrive(1, batch("c"), batch("d"))
    next_ones = task.feed(finished(0))

    assert runs(arrived) == ["a"]
    assert runs(next_ones) == ["bcd"]


def test_the_credit_of_every_batch_is_returned_after_its_stage() -> None:
    task = reader()
    task.arrive(0, batch("a"), batch("b"))
    task.arrive(1, batch("c"))

    in_use = []
    for stage in range(2):
        task.feed(finished(stage))
        in_use.append(metrics(task.feed(MetricsDue())).input_queue_length)

    assert in_use == [2, 0]


def test_every_coalesced_batch_is_counted() -> None:
    task = reader()
    task.arrive(0, batch("a"), batch("b"))
    task.arrive(1, batch("c"))

    ended = task.feed(finished(0), finished(1))

    assert runs(ended) == ["bc"]
    assert metrics(task.feed(MetricsDue())).batches_in == 3


def test_a_watermark_keeps_its_position_between_batches_for_event_time_operators() -> None:
    task = reader(OperatorKind.KEYED_PROCESS, channels=1, outputs=1)
    task.arrive(0, batch("a"), batch("b"), Watermark(timestamp_ms=50), batch("c"))

    second = task.feed(finished(0))
    advance, run = to_bridge(task.feed(finished(1)))

    assert runs(second) == ["b"]
    # Rows before the watermark are not late, even if the task has already received the watermark.
    [before] = [message for message in to_bridge(second) if isinstance(message, ProcessBatch)]
    assert before.watermark_ms == WATERMARK_MIN
    assert isinstance(advance, AdvanceWatermark)
    assert isinstance(run, ProcessBatch)
    assert (advance.watermark_ms, run.batches, run.watermark_ms) == (50, (batch("c"),), 50)


def test_a_forwarded_watermark_keeps_its_position() -> None:
    task = reader(OperatorKind.STATELESS, channels=1, outputs=1)
    task.arrive(0, batch("a"), batch("b"), Watermark(timestamp_ms=50), batch("c"))

    second = task.feed(finished(0))
    third = task.feed(finished(1))

    assert (runs(second), runs(third)) == (["b"], ["c"])
    assert down(second) == []
    assert down(third) == [Watermark(timestamp_ms=50)]


def test_watermarks_do_not_split_a_stage_without_event_time_operators() -> None:
    task = reader(OperatorKind.SINK, channels=1)
    task.arrive(
        0,
        batch("a"),
        batch("b"),
        Watermark(timestamp_ms=50),
        batch("c"),
        Watermark(timestamp_ms=60),
        barrier(1),
        batch("d"),
    )

    second = to_bridge(task.feed(finished(0)))
    snapshot, run = to_bridge(task.feed(finished(1)))

    assert isinstance(second[0], ProcessBatch)
    assert second[0].batches == (batch("b"), batch("c"))
    assert isinstance(snapshot, SnapshotState)
    assert isinstance(run, ProcessBatch)
    assert (run.batches, run.watermark_ms) == ((batch("d"),), 60)


def test_batches_after_a_barrier_are_processed_after_the_snapshot() -> None:
    task = reader(channels=1)
    task.arrive(0, batch("a"), batch("b"), barrier(1), batch("c"))

    began = to_bridge(task.feed(finished(0)))
    behind = task.feed(finished(1))

    assert isinstance(began[0], ProcessBatch)
    assert began[0].batches == (batch("b"),)
    assert [type(message) for message in to_bridge(behind)] == [SnapshotState, ProcessBatch]
    assert runs(behind) == ["c"]


def test_batches_of_a_channel_without_its_barrier_are_processed_before_the_snapshot() -> None:
    task = reader()
    task.arrive(0, batch("a"), batch("b"), barrier(1), batch("e"))
    task.arrive(1, batch("c"), batch("d"), barrier(1))

    began = to_bridge(task.feed(finished(0)))

    assert [type(message) for message in began] == [ProcessBatch]
    assert isinstance(began[0], ProcessBatch)
    assert isinstance(to_bridge(task.feed(finished(1)))[0], SnapshotState)
    assert {each.batch_id for each in began[0].batches} == {"b", "c", "d"}


def test_large_batches_are_read_on_arrival_two_at_a_time() -> None:
    task = reader(channels=1)

    assert runs(task.arrive(0, large("a"), large("b"))) == ["a", "b"]


def test_a_stage_reads_a_limited_number_of_bytes() -> None:
    task = reader(channels=1)
    task.arrive(0, batch("a"), large("b", COALESCED_BYTES // 2 - 1), large("c", COALESCED_BYTES - 1), batch("d"))
    # Enough batches were waiting, so a second stage started concurrently with the first.
    assert runs(task.feed(finished(0), finished(1))) == ["d"]


def test_a_stage_reads_a_limited_number_of_batches() -> None:
    count = COALESCED_BATCHES + 2
    deployed = recovering(descriptor(OperatorKind.SINK, channels=1), inputs=count)
    task = Harness(replace(deployed, coalesces_batches=True))

    first = task.feed(StartTask(), ChainOpened(recovered=(batch("a"),) * count))
    second = task.feed(finished(0))

    assert (runs(first), runs(second)) == (["a" * COALESCED_BATCHES], ["aa"])


def test_windows_process_every_batch_separately() -> None:
    task = reader(OperatorKind.WINDOW_AGGREGATE, channels=1)

    assert runs(task.arrive(0, batch("a"), batch("b"), batch("c"))) == ["a", "b"]
    assert runs(task.feed(finished(0))) == ["c"]


def test_batches_are_not_coalesced_if_coalescing_is_disabled() -> None:
    task = Harness(descriptor(OperatorKind.SINK, channels=1))
    task.feed(StartTask(), ChainOpened())

    assert runs(task.arrive(0, batch("a"), batch("b"), batch("c"))) == ["a", "b"]
    assert runs(task.feed(finished(0))) == ["c"]


# Sources


def files(*names: str, size_bytes: int = 1) -> AddSplits:
    made = tuple(FileBatchSplit(split_id=SplitId(name), files=(), rows=0, size_bytes=size_bytes) for name in names)
    return AddSplits(attempt=ATTEMPT, operator_id=SOURCE, splits=made)


def source(outputs: int = 1, *, coalesces: bool = True) -> Harness:
    deployed = descriptor(OperatorKind.SOURCE, outputs=outputs, watermark_delay_ms=100)
    return running(replace(deployed, coalesces_batches=coalesces))


def reads(effects: list[TaskEffect]) -> list[str]:
    started = [message for message in to_bridge(effects) if isinstance(message, ReadSplits)]
    return ["".join(split.split_id for split in read.splits) for read in started]


def took(task: Harness, stage: int, duration_ms: int) -> list[TaskEffect]:
    task.now += duration_ms
    return task.feed(StageResult(stage=stage))


def rests(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "read"]


def test_a_source_with_consumers_pauses_as_long_as_its_last_stage() -> None:
    task = source()

    assert reads(task.feed(files("a"), files("b"))) == ["a"]
    behind = [*took(task, 0, 120), *task.feed(files("c"))]
    assert (reads(behind), rests(behind)) == ([], [120])
    assert reads(task.feed(ReadDue())) == ["bc"]


def test_a_source_pauses_at_most_half_a_second() -> None:
    task = source()

    task.feed(files("a"))

    assert rests(took(task, 0, 9_000)) == [MAX_PAUSE_MS]


def test_a_file_that_arrives_after_the_pause_is_read_at_once() -> None:
    task = source()
    task.feed(files("a"))
    took(task, 0, 120)
    task.feed(ReadDue())

    assert reads(task.feed(files("b"))) == ["b"]


def test_a_source_with_half_a_batch_to_read_does_not_pause() -> None:
    half = LIMIT_START // 2 - OPEN_BYTES
    task = source()
    task.feed(files("a"))

    assert reads(task.feed(files("b", size_bytes=half))) == ["b"]


def test_a_source_with_chained_sinks_or_without_coalescing_does_not_pause() -> None:
    for task in (source(outputs=0), source(coalesces=False)):
        assert reads(task.feed(files("a"), files("b"))) == ["a", "b"]
        behind = [*took(task, 0, 120), *task.feed(files("c"))]
        assert (reads(behind), rests(behind)) == (["c"], [])


def test_a_checkpoint_does_not_wait_for_a_pausing_source() -> None:
    task = source()
    task.feed(files("a"), files("b"))
    took(task, 0, 120)

    assert [type(message) for message in to_bridge(task.feed(trigger(1)))] == [SnapshotState]


def collecting(*, channels: int = 2) -> Harness:
    deployed = descriptor(OperatorKind.INCREMENTAL, channels=channels, outputs=1)
    return running(replace(deployed, coalesces_batches=True, mini_batch_latency_ms=500))


def test_an_incremental_operator_processes_the_batches_of_a_checkpoint_in_one_stage() -> None:
    task = collecting()

    arrived = task.arrive(0, batch("a"), Watermark(timestamp_ms=50), batch("b"), barrier(1))
    arrived += task.arrive(1, batch("c"))
    completed = task.arrive(1, barrier(1))
    answered = task.feed(finished(0))

    assert StartTimer(key="mini-batch", delay_ms=500, message=MiniBatchDue()) in arrived
    assert runs(arrived) == []
    assert [sorted(each) for each in runs(completed)] == [["a", "b", "c"]]
    assert [type(each) for each in to_bridge(completed + answered)] == [ProcessBatch, SnapshotState]


def test_a_mini_batch_is_processed_after_its_latency() -> None:
    task = collecting()
    task.arrive(0, batch("a"))

    due = task.feed(MiniBatchDue())
    task.feed(finished(0))
    later = task.arrive(0, batch("b"))

    assert runs(due) == ["a"]
    assert runs(later) == []
    assert StartTimer(key="mini-batch", delay_ms=500, message=MiniBatchDue()) in later


def test_a_mini_batch_is_processed_when_a_channel_has_used_its_credits() -> None:
    task = collecting()

    waiting = task.arrive(0, *(batch(name) for name in "abc"))
    full = task.arrive(0, batch("d"))

    assert runs(waiting) == []
    assert runs(full) == ["abcd"]


def test_a_large_mini_batch_is_processed_at_once() -> None:
    task = collecting()

    assert runs(task.arrive(0, large("a"))) == ["a"]


def test_a_mini_batch_is_processed_when_all_data_has_arrived() -> None:
    task = collecting()

    waiting = task.arrive(0, batch("a"), EndOfData())
    ended = task.arrive(1, EndOfData())

    assert runs(waiting) == []
    assert runs(ended) == ["a"]


def test_recovered_batches_wait_for_no_mini_batch() -> None:
    deployed = recovering(descriptor(OperatorKind.INCREMENTAL, channels=2, outputs=1), inputs=1)
    task = Harness(replace(deployed, coalesces_batches=True, mini_batch_latency_ms=500))
    task.feed(StartTask())

    opened = task.feed(ChainOpened(recovered=(batch("r"),)))

    assert runs(opened) == ["r"]


def test_events_are_read_at_once_if_no_batch_waits() -> None:
    task = collecting()

    ended = task.arrive(0, EndOfData(), EndOfPartition())

    assert not task.machine._inputs.gate.has_data
    assert ended == []
