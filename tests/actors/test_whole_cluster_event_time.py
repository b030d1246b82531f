"""Event time, latency and accumulators in a whole cluster in virtual time, with idle sources and kills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.machines.attempt.stages import HISTORY_SIZE
from flykka.messages.attempt.answers import ChainClosed, EngineFailed, StageResult
from flykka.messages.attempt.commands import CloseChain, ReadSplits
from flykka.messages.control.job import CheckpointCompleted, JobResultSuccess, JobStatus, MetricsReported
from flykka.messages.graph.job_graph import JobVertex, Operator, ShipStrategy
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, OperatorId
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.engines import NamesEngine, Sink
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import ALL_FILES, FILES, Names, OneFileAtATime, WholeCluster, is_a, seeds

IDLE_TIMEOUT_MS = 700
REPORT_MS = 500
SILENCE_LOOKS = 20
"""The number of empty discoveries after the first file, which correspond to five seconds without rows."""


def files_counter(count: int) -> AccumulatorSnapshot:
    return AccumulatorSnapshot(name="files", type=AccumulatorType.INT_COUNTER, count=count)


class TimedEngine(NamesEngine):
    """File number n contains rows with event times up to n seconds; an accumulator counts files."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink) -> None:
        super().__init__(descriptor, sink)
        self._files = 0

    def read_splits(self, command: ReadSplits) -> StageResult:
        self._files += len(command.splits)
        latest_ms = max(1000 * int(split.split_id.removeprefix("file-")) for split in command.splits)
        moved = super().read_splits(command)
        return replace(moved, event_time_max=latest_ms, accumulators=(files_counter(self._files),))

    def close_chain(self, command: CloseChain) -> ChainClosed:
        return ChainClosed(accumulators=() if self._descriptor.inputs else (files_counter(self._files),))


class Trickle:
    """One file, then a long time without files, then one file per discovery."""

    def __init__(self, operator_id: OperatorId) -> None:
        self._files = OneFileAtATime(operator_id)
        self._silent_looks = 0
        self.interval_ms = self._files.interval_ms
        self.changed = self._files.changed

    def discover(self, position: bytes) -> SplitsDiscovered:
        if position == b"1" and self._silent_looks < SILENCE_LOOKS:
            self._silent_looks += 1
            return replace(self._files.discover(position), splits=(), finished=False, position=position)
        return self._files.discover(position)


class TimedNames(Names):
    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> TimedEngine:
        return TimedEngine(descriptor, self.sink)

    def split_discovery(self, job_id: JobId, operator: Operator) -> Trickle:  # type: ignore[override]
        return Trickle(operator.operator_id)


def vertices(idle_timeout_ms: int | None) -> tuple[JobVertex, ...]:
    source, sink = graph_of(
        vertex("source", 2, outputs=1), vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.HASH)
    ).vertices
    return replace(source, watermark_delay_ms=0, idle_timeout_ms=idle_timeout_ms), sink


def watermarks(stage: WholeCluster) -> list[int]:
    reported = [message.metrics for message in stage.client.received(MetricsReported) if message.vertex_id == "sink"]
    return [metrics.watermark_ms for metrics in reported if metrics.watermark_ms is not None]


@pytest.mark.parametrize("seed", seeds(5))
def test_an_idle_source_subtask_holds_back_no_watermark_and_becomes_active_again(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        stage.submit(vertices=vertices(IDLE_TIMEOUT_MS), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=4)
        in_silence = watermarks(stage)
        stage.run(seconds=11)

        # One subtask has read the file of second 0, the other has read no file, and both are idle.
        assert set(in_silence) == {-1}
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert watermarks(stage)[-1] == WATERMARK_MAX
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("seed", seeds(5))
def test_without_an_idle_timeout_a_silent_source_subtask_holds_back_event_time(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        stage.submit(vertices=vertices(None), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=4)
        in_silence = watermarks(stage)
        stage.run(seconds=11)

        assert in_silence == []
        assert stage.statuses()[-1] is JobStatus.FINISHED


@pytest.mark.parametrize("seed", seeds(5))
def test_event_time_never_goes_back_while_sources_become_idle_and_active(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        kill = kill_when(system, "/user/task-manager-1", is_a(CheckpointCompleted))
        stage.submit(vertices=vertices(IDLE_TIMEOUT_MS), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=25)

        by_attempt: dict[str, list[int]] = {}
        for report in stage.client.received(MetricsReported):
            if report.metrics.watermark_ms is not None:
                by_attempt.setdefault(report.attempt, []).append(report.metrics.watermark_ms)
        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert all(reported == sorted(reported) for reported in by_attempt.values())
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("seed", seeds(3))
def test_latency_is_reported_at_every_vertex_by_source_subtask(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        stage.submit(vertices=vertices(None), heartbeat_interval_ms=REPORT_MS, latency_tracking_interval_ms=200)

        stage.run(seconds=5)

        at_sinks = [message for message in stage.client.received(MetricsReported) if message.vertex_id == "sink"]
        last = {message.attempt: message.metrics.latencies for message in at_sinks}
        assert len(last) == 2
        for latencies in last.values():
            assert sorted((way.operator_id, way.subtask) for way in latencies) == [("source", 0), ("source", 1)]
            # Each marker is sent to one consumer only.
            assert all(0 < way.count < HISTORY_SIZE for way in latencies)


@pytest.mark.parametrize("seed", seeds(3))
def test_latency_is_not_tracked_unless_configured(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        stage.submit(vertices=vertices(None), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=3)

        assert all(not message.metrics.latencies for message in stage.client.received(MetricsReported))


@pytest.mark.parametrize("seed", seeds(5))
def test_a_finished_job_merges_the_accumulators_of_its_subtasks(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        stage.submit(vertices=vertices(None), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=15)

        [success] = stage.client.received(JobResultSuccess)
        assert success.accumulators == AccumulatorResults(merged=(files_counter(FILES),))
        assert any(message.accumulators for message in stage.client.received(MetricsReported))


@pytest.mark.parametrize("seed", seeds(5))
def test_counts_of_failed_attempts_are_not_in_the_results(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, TimedNames())
        kill = kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit(vertices=vertices(None), heartbeat_interval_ms=REPORT_MS)

        stage.run(seconds=25)

        [success] = stage.client.received(JobResultSuccess)
        (files,) = success.accumulators.merged
        assert kill.done
        # An attempt that failed or was cancelled had read and counted the first file.
        assert files.count < FILES
        assert stage.data_plane.sink.published == ALL_FILES
