"""Tests in-flight batches as checkpoint state: retained, written, and in flight again in the next attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.actors.machines.attempt.channel_state import channel_state
from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.attempt.answers import ChainOpened, ChannelStateWritten, StageResult, WorkFailed
from flykka.messages.attempt.commands import (
    ChannelStatePart,
    HoldBatches,
    ReleaseBatches,
    StageOutput,
    WriteChannelState,
)
from flykka.messages.graph.job_graph import JobEdge, ShipStrategy
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MAX, BatchRef
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import Harness, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOLDER = "checkpoint 1"
ROWS = [(1, 10, 0.0), (2, 20, 0.5), (1, 30, 1.0)]
PUBLISHED = [(1, 10), (1, 30), (2, 20)]


class Line:
    """A source, windows that read it, and one batch in flight between them."""

    def __init__(self, harness: Harness) -> None:
        write_rows(harness.input / "0.parquet", ROWS)
        self.harness = harness
        windows = harness.windows()
        self.source_vertex = harness.source(LocalAggregateCode(of=windows))
        self.windows_vertex = harness.vertex("windows", windows, harness.sink())
        self.source = harness.begin(self.source_vertex).open()
        self.windows = harness.begin(self.windows_vertex, reads=self.source).open()
        self.made = self.source.read(harness.splits(self.source_vertex))
        [output] = self.made.outputs
        self.batch = output.batch

    def part(self, which: DrivenAttempt) -> ChannelStatePart:
        """Return the batch as input channel state of the windows, or output channel state of the source."""
        path = f"{self.harness.folder}/checkpoints/job/in-flight/{which.engine.descriptor.attempt}-1"
        place = {"gate": 0} if which is self.windows else {"output": 0}
        return ChannelStatePart(path=path, batches=(self.batch,), **place)

    def write_channel_state(self, which: DrivenAttempt) -> OperatorSubtaskState:
        part = self.part(which)
        which.tell(WriteChannelState(checkpoint_id=1, parts=(part,)))
        return channel_state(which.engine.descriptor, (part,), which.expect(ChannelStateWritten).folders)

    def restart(self, which: DrivenAttempt, state: OperatorSubtaskState) -> tuple[DrivenAttempt, BatchRef]:
        which.close(cancel=True)
        reads = self.source if which is self.windows else None
        attempt = self.harness.begin(which.engine.descriptor.vertex, reads=reads, number=1)
        attempt.start_open(TaskStateSnapshot(operators=(state,)))
        (recovered,) = attempt.expect(ChainOpened).recovered
        assert recovered is not None
        return attempt, recovered

    def published_by(self, windows: DrivenAttempt, batch: BatchRef) -> list[tuple[int, int]]:
        """Return the keys and amounts that the windows publish at their next checkpoint after reading a batch."""
        windows.run(StageResult(stage=0, outputs=(StageOutput(output=0, batch=batch),)))
        windows.snapshot(2, watermark_ms=WATERMARK_MAX)
        windows.commit(2)
        return sorted((row.key, row.most) for row in self.harness.published().select("key", "most").collect())


@pytest.fixture
def line(harness: Harness) -> Line:
    return Line(harness)


def hold(line: Line, which: DrivenAttempt) -> None:
    which.tell(HoldBatches(checkpoint_id=1, batch_ids=(line.batch.batch_id,), holder=HOLDER))
    which.next()


def test_a_processed_input_batch_is_written_and_in_flight_again(line: Line) -> None:
    hold(line, line.windows)
    line.windows.run(line.made)

    state = line.write_channel_state(line.windows)
    windows, recovered = line.restart(line.windows, state)

    [folder], [handle] = state.exclusive, state.input_channels
    assert (folder.path, folder.size_bytes) == (handle.in_flight.path, handle.in_flight.size_bytes)
    assert handle.gate == 0
    assert recovered.rows == line.batch.rows == handle.in_flight.rows
    assert (recovered.event_time_min, recovered.event_time_max) == (
        line.batch.event_time_min,
        line.batch.event_time_max,
    )
    assert line.published_by(windows, recovered) == PUBLISHED


def test_an_output_batch_is_sent_again_to_the_same_subpartition(line: Line) -> None:
    hold(line, line.source)

    state = line.write_channel_state(line.source)
    _, recovered = line.restart(line.source, state)

    [handle] = state.result_subpartitions
    assert (handle.output, handle.subpartition, handle.subpartitions) == (0, 0, 1)
    assert recovered.subpartition == 0
    assert line.published_by(line.windows, recovered) == PUBLISHED


def test_each_subtask_restores_its_own_share_of_in_flight_keyed_rows(line: Line) -> None:
    hold(line, line.windows)
    [handle] = line.write_channel_state(line.windows).input_channels
    line.windows.close(cancel=True)

    vertex_id, keys = line.source_vertex.vertex_id, line.harness.keys_of(line.source_vertex)
    edge = JobEdge(source=vertex_id, source_output=0, ship_strategy=ShipStrategy.HASH, key_by=keys)
    taken = 0
    for subtask in range(3):
        mine = replace(handle, key_groups=key_groups_of(subtask, 128, 3))
        state = OperatorSubtaskState(operator_id=OperatorId("windows"), input_channels=(mine,))
        vertex = replace(line.windows_vertex, parallelism=3, inputs=(edge,))
        attempt = line.harness.begin(vertex, subtask=subtask, reads=line.source, number=1)
        attempt.start_open(TaskStateSnapshot(operators=(state,)))
        for recovered in attempt.expect(ChainOpened).recovered:
            if recovered is not None:
                taken += recovered.rows
                published = line.published_by(attempt, recovered)

    assert taken == line.batch.rows
    assert published == PUBLISHED


def test_an_empty_channel_has_no_state_and_runs_no_job(line: Line) -> None:
    line.windows.tell(WriteChannelState(checkpoint_id=1, parts=()))

    assert line.windows.expect(ChannelStateWritten).folders == ()


def test_held_batches_are_released_if_the_checkpoint_is_aborted(line: Line) -> None:
    stats = line.harness.plane.stats
    before = stats().batches
    hold(line, line.source)
    line.source.tell(ReleaseBatches(holder=IN_TRANSIT, batch_ids=(line.batch.batch_id,)))
    line.source.commit(1)
    held = stats().batches

    line.source.tell(ReleaseBatches(holder=HOLDER))
    line.source.commit(2)

    assert (held, stats().batches) == (before, before - 1)


def test_a_lost_batch_declines_the_checkpoint_and_is_named(line: Line) -> None:
    line.source.tell(ReleaseBatches(holder=IN_TRANSIT, batch_ids=(line.batch.batch_id,)))

    line.source.tell(HoldBatches(checkpoint_id=1, batch_ids=(line.batch.batch_id,), holder=HOLDER))
    failed = line.source.expect(WorkFailed)

    assert not failed.ends_attempt
    assert failed.cause.type_name == "UnknownBatchError"
    assert line.batch.batch_id in failed.cause.message


def test_unwritable_channel_state_leaves_no_file_and_the_attempt_continues(line: Line) -> None:
    folder = line.harness.folder / "checkpoints" / "job"
    folder.mkdir(parents=True)
    (folder / "in-flight").touch()
    hold(line, line.windows)

    line.windows.tell(WriteChannelState(checkpoint_id=1, parts=(line.part(line.windows),)))
    failed = line.windows.expect(WorkFailed)

    assert not failed.ends_attempt
    assert "channel state 1" in failed.cause.message
    assert (folder / "in-flight").is_file()
    assert line.published_by(line.windows, line.batch) == PUBLISHED
