"""Batches in flight as state of a checkpoint: held, written, and in flight again in the next attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.graph.job_graph import JobEdge, ShipStrategy
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    BridgeOpened,
    ChannelStateWritten,
    HoldInFlight,
    InputInFlight,
    OpenBridge,
    ReleaseBatches,
    SnapshotFailed,
    StageFinished,
    StageOutput,
    WriteChannelState,
)
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.operators.code import LocalAggregateCode
from tests.spark_bridge.laboratory import Laboratory, Told, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = [(1, 10, 0.0), (2, 20, 0.5), (1, 30, 1.0)]
PUBLISHED = [(1, 10), (1, 30), (2, 20)]


class Line:
    """A source, windows that read it, and one batch on its way between them."""

    def __init__(self, laboratory: Laboratory) -> None:
        write_rows(laboratory.input / "0.parquet", ROWS)
        self.laboratory = laboratory
        windows = laboratory.windows()
        self.source_vertex = laboratory.source(LocalAggregateCode(of=windows))
        self.windows_vertex = laboratory.vertex("windows", windows, laboratory.sink())
        self.source = laboratory.begin(self.source_vertex).open()
        self.windows = laboratory.begin(self.windows_vertex, reads=self.source).open()
        self.made = self.source.read(laboratory.splits(self.source_vertex))
        [output] = self.made.outputs
        self.batch = output.batch
        self.entering = (InputInFlight(gate=0, batch=self.batch),)

    def restarted(self, which: Told, state: OperatorSubtaskState) -> tuple[Told, BridgeOpened]:
        """The next attempt of a vertex, with what was in flight."""
        which.close(cancel=True)
        reads = self.source if which is self.windows else None
        told = self.laboratory.begin(which.engine.descriptor.vertex, reads=reads, number=1)
        told.tell(OpenBridge(restore=TaskStateSnapshot(operators=(state,)), restored_checkpoint_id=1))
        return told, told.expect(BridgeOpened)

    def published_by(self, windows: Told, batch: BatchRef) -> list[tuple[int, int]]:
        """Keys and amounts that windows publish with their next checkpoint, when they have read a batch."""
        windows.run(StageFinished(stage=0, outputs=(StageOutput(output=0, batch=batch),)))
        windows.snapshot(2, watermark_ms=WATERMARK_MAX)
        windows.commit(2)
        return sorted((row.key, row.most) for row in self.laboratory.published().select("key", "most").collect())


@pytest.fixture
def line(laboratory: Laboratory) -> Line:
    return Line(laboratory)


def hold(line: Line, which: Told) -> None:
    which.tell(HoldInFlight(checkpoint_id=1, batch_ids=(line.batch.batch_id,)))


def test_a_batch_on_its_way_in_is_written_though_it_was_processed_and_is_on_its_way_again(line: Line) -> None:
    hold(line, line.windows)
    line.windows.run(line.made)

    line.windows.tell(WriteChannelState(checkpoint_id=1, inputs=line.entering, outputs=()))
    written = line.windows.expect(ChannelStateWritten)
    windows, opened = line.restarted(line.windows, written.state)

    [folder], [handle], [recovered] = written.state.exclusive, written.state.input_channels, opened.recovered_inputs
    assert (folder.path, folder.size_bytes) == (handle.in_flight.path, written.size_bytes)
    assert recovered.gate == 0
    assert recovered.batch.rows == line.batch.rows == handle.in_flight.rows
    assert (recovered.batch.event_time_min, recovered.batch.event_time_max) == (
        line.batch.event_time_min,
        line.batch.event_time_max,
    )
    assert line.published_by(windows, recovered.batch) == PUBLISHED


def test_a_batch_on_its_way_out_goes_down_again_to_the_same_subpartition(line: Line) -> None:
    hold(line, line.source)

    line.source.tell(WriteChannelState(checkpoint_id=1, inputs=(), outputs=line.made.outputs))
    written = line.source.expect(ChannelStateWritten)
    _, opened = line.restarted(line.source, written.state)

    [handle], [recovered] = written.state.result_subpartitions, opened.recovered_outputs
    assert (handle.output, handle.subpartition, handle.subpartitions) == (0, 0, 1)
    assert (recovered.output, recovered.batch.subpartition) == (0, 0)
    assert line.published_by(line.windows, recovered.batch) == PUBLISHED


def test_of_keyed_rows_on_their_way_in_each_of_several_subtasks_takes_its_own(line: Line) -> None:
    hold(line, line.windows)
    line.windows.tell(WriteChannelState(checkpoint_id=1, inputs=line.entering, outputs=()))
    [handle] = line.windows.expect(ChannelStateWritten).state.input_channels
    line.windows.close(cancel=True)

    vertex_id, keys = line.source_vertex.vertex_id, line.laboratory.keys_of(line.source_vertex)
    edge = JobEdge(source=vertex_id, source_output=0, ship_strategy=ShipStrategy.HASH, key_by=keys)
    taken = 0
    for subtask in range(3):
        mine = replace(handle, key_groups=key_groups_of(subtask, 128, 3))
        state = OperatorSubtaskState(operator_id=OperatorId("windows"), input_channels=(mine,))
        vertex = replace(line.windows_vertex, parallelism=3, inputs=(edge,))
        told = line.laboratory.begin(vertex, subtask=subtask, reads=line.source, number=1)
        told.tell(OpenBridge(restore=TaskStateSnapshot(operators=(state,)), restored_checkpoint_id=1))
        for recovered in told.expect(BridgeOpened).recovered_inputs:
            taken += recovered.batch.rows
            published = line.published_by(told, recovered.batch)

    assert taken == line.batch.rows
    assert published == PUBLISHED


def test_nothing_in_flight_is_no_state_and_costs_no_job(line: Line) -> None:
    line.windows.tell(WriteChannelState(checkpoint_id=1, inputs=(), outputs=()))

    written = line.windows.expect(ChannelStateWritten)

    assert written.size_bytes == 0
    assert written.state.exclusive == ()


def test_what_is_held_is_let_go_when_nobody_wants_the_checkpoint(line: Line) -> None:
    stats = line.laboratory.plane.stats
    before = stats().batches
    hold(line, line.source)
    line.source.tell(ReleaseBatches(batch_ids=(line.batch.batch_id,)))
    line.source.commit(1)
    held = stats().batches

    line.source.tell(AbortCheckpoint(checkpoint_id=1))
    line.source.commit(2)

    assert (held, stats().batches) == (before, before - 1)


def test_a_batch_that_is_gone_declines_the_checkpoint_and_names_it(line: Line) -> None:
    line.source.tell(ReleaseBatches(batch_ids=(line.batch.batch_id,)))

    hold(line, line.source)
    failed = line.source.expect(SnapshotFailed)

    assert failed.checkpoint_id == 1
    assert failed.cause.type_name == "UnknownBatchError"
    assert line.batch.batch_id in failed.cause.message


def test_channel_state_that_cannot_be_written_leaves_nothing_behind_and_the_attempt_goes_on(line: Line) -> None:
    folder = line.laboratory.folder / "checkpoints" / "job"
    folder.mkdir(parents=True)
    (folder / "in-flight").touch()
    hold(line, line.windows)

    line.windows.tell(WriteChannelState(checkpoint_id=1, inputs=line.entering, outputs=()))
    failed = line.windows.expect(SnapshotFailed)

    assert failed.checkpoint_id == 1
    assert "channel state 1" in failed.cause.message
    assert (folder / "in-flight").is_file()
    assert line.published_by(line.windows, line.batch) == PUBLISHED
