"""The reading of a source: splits, a batch of them per stage, until there are no more.

Composes the reader of the splits with the idleness of the source and its alignment with others; stages and events go
down the line of the task.

A stage costs the most of what it costs however little it reads. So where each makes a batch for other tasks, a few
splits wait for the stage that reads, and then for as long as that has taken: several sources that read every file by
itself would keep the machine so busy that each stage took many times as long. A stage of a hundred milliseconds makes
nobody wait for longer than that; one that takes a second because all are busy makes them less so. A few splits wait as
well while those who read the batches have no room for more: they would come no sooner, and a barrier behind many
batches comes late.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.aligned_reading import AlignedReading
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.idleness import WatermarksWithIdleness
from flykka.actors.machines.attempt.in_flight_stages import InFlightStages
from flykka.actors.machines.attempt.split_reader import SplitReader
from flykka.actors.machines.attempt.stages import STAGES_IN_FLIGHT, Stage
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.graph.job_graph import OperatorKind, ResultPartitionType
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, LatencyMarker, Watermark
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits, RequestSplits
from flykka.messages.tasks.task import LatencyMarkerDue, ReadDue, TaskDeploymentDescriptor, WatermarkReportDue

SPLITS_AHEAD = 2 * STAGES_IN_FLIGHT
"""Splits held or asked for, at least: enough to go on while the JobMaster holds assignments back for a checkpoint."""


REST_AT_MOST_MS = 500
"""So long a reader of little rests behind a stage at the most: there are readers whose stages take many seconds."""


SourceReadingEvent = AddSplits | NoMoreSplits | ReadDue | LatencyMarkerDue | AlignWatermark | WatermarkReportDue
"""Messages to the Task of a source that concern its reading alone."""


class SourceReading:
    """The source at the head of one attempt."""

    __slots__ = (
        "_aligned",
        "_attempt",
        "_idleness",
        "_latency_tracking_interval_ms",
        "_paces",
        "_reader",
        "_restore",
        "_rests",
        "_stages",
        "_subtask",
        "end_of_data",
    )

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, stages: InFlightStages, idleness: WatermarksWithIdleness
    ) -> None:
        self.end_of_data = False
        self._attempt = descriptor.attempt
        kept = any(output.partition_type is ResultPartitionType.BLOCKING for output in descriptor.outputs)
        self._paces = descriptor.coalesces_batches and bool(descriptor.outputs) and not kept
        self._rests = False
        self._restore = descriptor.restore
        self._reader = SplitReader(descriptor.vertex.operators[0].operator_id, SPLITS_AHEAD)
        self._idleness = idleness
        self._aligned = AlignedReading(descriptor, stages, idleness)
        self._subtask = descriptor.subtask
        self._latency_tracking_interval_ms = descriptor.latency_tracking_interval_ms
        self._stages = stages

    @property
    def has_unread(self) -> bool:
        """A split is there to be read."""
        return self._reader.has_unread

    @property
    def files_unread(self) -> int:
        """The number of files to be read."""
        return self._reader.files_unread

    @property
    def batch_limit_bytes(self) -> int | None:
        """The most that the next batch takes of what waits; None where it takes one split, whatever its size."""
        return self._reader.batch_limit_bytes

    def open(self) -> None:
        """Take back the splits that the checkpoint found unread."""
        if self._restore is not None:
            self._reader.restore(self._restore.operators)

    def start(self) -> list[TaskEffect]:
        """The task runs."""
        return [*self._idleness.start(), *self._aligned.start(), *self._start_latency_timer()]

    def handle(self, event: SourceReadingEvent, now: int) -> list[TaskEffect]:
        """Splits arrive or end, the reader is told how far it may go, or a time is over."""
        match event:
            case AddSplits(splits=splits, numbers=numbers):
                self._reader.add(splits, numbers)
            case NoMoreSplits():
                self._reader.no_more()
            case ReadDue():
                self._rests = False
            case AlignWatermark():
                self._aligned.align(event)
            case WatermarkReportDue():
                return self._aligned.on_due()
            case LatencyMarkerDue():
                return self._on_latency_marker_due(now)
        return []

    def snapshot(self) -> OperatorSubtaskState:
        """The splits that are unread now."""
        return self._reader.snapshot()

    def request_splits(self) -> list[TaskEffect]:
        """Ask for splits ahead of need."""
        count = self._reader.splits_to_request()
        if count == 0 or self.end_of_data:
            return []
        operator_id = self._reader.operator_id
        return [
            Tell(to=Role.JOB_MASTER, message=RequestSplits(attempt=self._attempt, operator_id=operator_id, count=count))
        ]

    def read(self) -> list[TaskEffect] | None:
        """Begin a stage that reads the splits of the next batch; None while there is nothing to do."""
        if self.end_of_data or self._waits_for_more or self.held_back_by is not None:
            return None
        splits = self._reader.next()
        if splits:
            awake = self._idleness.read()
            command = ReadSplits(stage=self._stages.next_stage, splits=splits)
            stage = Stage(command=command, cost=sum(map(self._reader.limit.cost, splits)))
            return [*awake, *self._stages.begin(stage)]
        return self.end_data() if self._reader.exhausted else None

    def has_read(self, cost: int, duration_ms: int) -> list[TaskEffect]:
        """A stage that read splits has ended."""
        self._reader.limit.learn(cost, duration_ms)
        awake = self._idleness.read()
        if not self._paces or not duration_ms:
            return awake
        self._rests = True
        return [*awake, StartTimer(key="read", delay_ms=min(duration_ms, REST_AT_MOST_MS), message=ReadDue())]

    @property
    def held_back_by(self) -> str | None:
        """The group of sources that are too far behind, where there is something to be read."""
        return self._aligned.group if self._aligned.is_too_far_ahead and self._reader.has_unread else None

    @property
    def _waits_for_more(self) -> bool:
        if not self._paces:
            return False
        is_behind = self._rests or self._stages.is_reading or not self._stages.outputs.have_credit
        return is_behind and self._reader.is_little_unread

    def end_data(self) -> list[TaskEffect]:
        """Nothing more is read: say so, and let event time come to its end; once."""
        if self.end_of_data:
            return []
        self.end_of_data = True
        awake = self._idleness.end()
        return (
            awake
            + self._aligned.end()
            + self._stages.emit_after(Watermark(timestamp_ms=WATERMARK_MAX))
            + self._stages.emit_after(EndOfData())
        )

    def _on_latency_marker_due(self, now: int) -> list[TaskEffect]:
        """Send a latency marker, until the last row is read."""
        if self.end_of_data:
            return []
        marker = LatencyMarker(marked_ms=now, operator_id=self._reader.operator_id, subtask=self._subtask)
        return [*self._start_latency_timer(), *self._stages.emit_after(marker)]

    def _start_latency_timer(self) -> list[TaskEffect]:
        interval_ms = self._latency_tracking_interval_ms
        return (
            []
            if interval_ms is None
            else [StartTimer(key="latency-marker", delay_ms=interval_ms, message=LatencyMarkerDue())]
        )


def source_reading(
    descriptor: TaskDeploymentDescriptor, stages: InFlightStages, idleness: WatermarksWithIdleness
) -> SourceReading | None:
    """The source of a task; None where its chain does not begin with one."""
    is_source = descriptor.vertex.operators[0].kind is OperatorKind.SOURCE
    return SourceReading(descriptor, stages, idleness) if is_source else None
