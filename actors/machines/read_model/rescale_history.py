"""The last rescales of a job, and the number of those there were (Flink's RescalesStatsSnapshot)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import replace

from flykka.messages.control.rescaling import (
    Rescale,
    RescalesSnapshot,
    RescaleTerminalState,
    RescaleTerminatedReason,
)
from flykka.messages.wire.ids import JobId

MAX_RESCALES = 100
"""So many are kept, the last ones (Flink's web.adaptive-scheduler.rescale-history.size)."""


class RescaleHistory:
    """The rescales of one job, through all of its JobMasters."""

    def __init__(self) -> None:
        self._rescales: OrderedDict[str, Rescale] = OrderedDict()
        self._counts: Counter[RescaleTerminalState] = Counter()

    @property
    def has_one_under_way(self) -> bool:
        """True if the last one has not ended."""
        return bool(self._rescales) and next(reversed(self._rescales.values())).reason is None

    def note(self, rescale: Rescale) -> None:
        """A rescale has begun, or goes on, or has ended."""
        if rescale.terminal_state is not None:
            self._counts[rescale.terminal_state] += 1
        self._rescales[rescale.rescale_id] = rescale
        if len(self._rescales) > MAX_RESCALES:
            self._rescales.popitem(last=False)

    def on_new_job_master(self, at_ms: int) -> None:
        """End the rescales that the JobMaster before it had begun."""
        reason = RescaleTerminatedReason.EXCEPTION_OCCURRED
        for rescale in [each for each in self._rescales.values() if each.reason is None]:
            self.note(replace(rescale, ended_ms=at_ms, reason=reason, comment="its JobMaster has ended"))

    def snapshot(self, job_id: JobId) -> RescalesSnapshot:
        return RescalesSnapshot(
            job_id=job_id,
            rescales=tuple(self._rescales.values()),
            completed=self._counts[RescaleTerminalState.COMPLETED],
            failed=self._counts[RescaleTerminalState.FAILED],
            ignored=self._counts[RescaleTerminalState.IGNORED],
        )
