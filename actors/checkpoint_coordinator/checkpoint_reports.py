"""The part of a CheckpointCoordinator that reports the progress of checkpoints to the ExecutionGraphInfoStore."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.effects import CheckpointReport
from flykka.messages.checkpointing.statistics import (
    CheckpointReportDue,
    CheckpointTriggered,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext

REPORT_INTERVAL_MS = 1_000
"""Acknowledgements wait for so long to be reported together: a checkpoint of ten thousand tasks is one message more,
and of one that is held up everything is known after a second."""

_TIMER = "checkpoint-report"


class CheckpointReports:
    """Used in the turns of a coordinator only. Without a store nothing is reported."""

    def __init__(self, context: ActorContext, job_id: JobId, info_store: Ref | None) -> None:
        self._context = context
        self._job_id = job_id
        self._info_store = info_store
        self._acknowledged: dict[int, list[SubtaskCheckpointStatistics]] = {}

    def add(self, report: CheckpointReport) -> None:
        """Send the report of a checkpoint that has been triggered at once, an acknowledgement with the next `flush`."""
        if self._info_store is None:
            return
        match report:
            case CheckpointTriggered():
                self._info_store.tell(report)
            case SubtasksAcknowledged(checkpoint_id=checkpoint_id, subtasks=subtasks):
                if not self._acknowledged:
                    self._context.timers.start_once(_TIMER, REPORT_INTERVAL_MS, CheckpointReportDue())
                self._acknowledged.setdefault(checkpoint_id, []).extend(subtasks)

    def flush(self) -> None:
        """Report the acknowledgements that were added: when they are due, and before a checkpoint ends."""
        if self._info_store is None or not self._acknowledged:
            return
        self._context.timers.cancel(_TIMER)
        for checkpoint_id, subtasks in self._acknowledged.items():
            self._info_store.tell(
                SubtasksAcknowledged(job_id=self._job_id, checkpoint_id=checkpoint_id, subtasks=tuple(subtasks))
            )
        self._acknowledged.clear()
