"""The pace of an aligned source: it does not read on while its event time is too far ahead of its group's.

It says every interval how far it is, where that has changed, and is told how far it may go (Flink's SourceOperator with
its reported watermark and its desired one). Before it is told anything it reads on. What pauses takes part in
checkpoints as ever, and is not idle while there is something that it could read.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.idleness import WatermarksWithIdleness
from flykka.actors.machines.attempt.in_flight_stages import InFlightStages
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.messages.graph.job_graph import JobType, WatermarkAlignment
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.source import AlignWatermark, ReportedWatermark
from flykka.messages.tasks.task import TaskDeploymentDescriptor, WatermarkReportDue


class AlignedReading:
    """The alignment of one reader; of a source that is not aligned nothing follows from it."""

    __slots__ = ("_alignment", "_attempt", "_has_ended", "_idleness", "_max_watermark_ms", "_reported", "_stages")

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, stages: InFlightStages, idleness: WatermarksWithIdleness
    ) -> None:
        is_batch = descriptor.job_type is JobType.BATCH
        self._alignment: WatermarkAlignment | None = None if is_batch else descriptor.vertex.watermark_alignment
        self._attempt = descriptor.attempt
        self._stages = stages
        self._idleness = idleness
        self._max_watermark_ms = WATERMARK_MAX
        self._reported: ReportedWatermark | None = None
        self._has_ended = False

    @property
    def group(self) -> str | None:
        """The sources that it is aligned with."""
        return None if self._alignment is None else self._alignment.group

    @property
    def is_too_far_ahead(self) -> bool:
        """It is not to read on."""
        return self._stages.made_watermark_ms > self._max_watermark_ms

    def start(self) -> list[TaskEffect]:
        """The task runs: the others of the group wait for it, until it has said where it is."""
        return [] if self._alignment is None else self.on_due()

    def on_due(self) -> list[TaskEffect]:
        """It is time to report."""
        assert self._alignment is not None, "a timer is started for an alignment alone"
        if self._has_ended:
            return []
        return [
            *self._report(),
            StartTimer(
                key="watermark-report", delay_ms=self._alignment.update_interval_ms, message=WatermarkReportDue()
            ),
        ]

    def align(self, told: AlignWatermark) -> None:
        """The group has come on, or has fallen back."""
        self._max_watermark_ms = told.max_watermark_ms

    def end(self) -> list[TaskEffect]:
        """Nothing more is read: nobody waits for this reader."""
        self._has_ended = True
        return [] if self._alignment is None else self._report()

    def _report(self) -> list[TaskEffect]:
        report = ReportedWatermark(
            attempt=self._attempt,
            watermark_ms=WATERMARK_MAX if self._has_ended else self._stages.made_watermark_ms,
            is_idle=self._idleness.is_idle,
        )
        if report == self._reported:
            return []
        self._reported = report
        return [Tell(to=Role.JOB_MASTER, message=report)]
