"""The clockwork that asks for a checkpoint once per interval while the job runs.

The first checkpoint comes early unless the job says otherwise: until it is complete nothing is published, and a failure
starts the job over. Flink draws that delay between the shortest pause and the interval
(CheckpointCoordinator.getRandomInitDelay), so that jobs do not all write at once. A job may have that too: the draw is
a function of its id, so that jobs differ, and a replay does not.

The rate is fixed: a late tick does not move those that follow. Where a request comes before the end of
a pause, the clockwork goes on from that end.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.messages.control.checkpoint_coordination import PeriodicTriggerDue
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.wire.ids import JobId

FIRST_DELAY_MS = 1_000
"""The least delay of the first checkpoint: the first batches are under way by then. Never past the interval."""
_TIMER = "periodic"


class PeriodicTrigger:
    """The scheduler of periodic checkpoints: on or off, and when it is due."""

    def __init__(self, settings: CheckpointingSettings, job_id: JobId) -> None:
        interval_ms, min_pause_ms = settings.interval_ms, settings.min_pause_ms
        if interval_ms is not None and interval_ms < 1:
            raise ValueError(f"the checkpoint interval has to be at least 1 ms, not {interval_ms}")
        # It makes no sense to ask more often than there may be a checkpoint.
        self._interval_ms = None if interval_ms is None else max(interval_ms, min_pause_ms)
        self._first_delay_ms = 0 if self._interval_ms is None else _first_delay(settings, self._interval_ms, job_id)
        self._due: int | None = None
        self.is_on = False

    @property
    def is_armed(self) -> bool:
        """True if a next trigger is scheduled."""
        return self._due is not None

    def start(self, now: int) -> Iterator[StartTimer]:
        """Switch on: due after the first delay."""
        self.is_on = True
        if self._interval_ms is not None:
            yield self._arm(now, self._first_delay_ms)

    def stop(self) -> Iterator[CancelTimer]:
        """Switch off."""
        self.is_on = False
        if self._due is not None:
            self._due = None
            yield CancelTimer(key=_TIMER)

    def rearm(self, now: int, delay_ms: int) -> Iterator[StartTimer]:
        """Be due `delay_ms` from now and go on from there; nothing happens while switched off."""
        if self.is_on and self._interval_ms is not None:
            yield self._arm(now, delay_ms)

    def rearm_if_missed(self, now: int) -> Iterator[StartTimer]:
        """Be due after an interval if the last tick has raised before it set the next time."""
        if self._due is not None and self._due <= now and self._interval_ms is not None:
            yield self._arm(now, self._interval_ms)

    def tick(self, now: int) -> Iterator[StartTimer]:
        """It was due: set the next time."""
        assert self._due is not None
        assert self._interval_ms is not None
        missed = (now - self._due) // self._interval_ms
        yield self._arm(now, self._due + (missed + 1) * self._interval_ms - now)

    def _arm(self, now: int, delay_ms: int) -> StartTimer:
        self._due = now + delay_ms
        return StartTimer(key=_TIMER, delay_ms=delay_ms, message=PeriodicTriggerDue())


def _first_delay(settings: CheckpointingSettings, interval_ms: int, job_id: JobId) -> int:
    if settings.has_random_initial_delay:
        drawn = int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest())
        return settings.min_pause_ms + drawn % (interval_ms - settings.min_pause_ms + 1)
    if settings.initial_delay_ms is not None:
        return settings.initial_delay_ms
    return min(max(FIRST_DELAY_MS, settings.min_pause_ms), interval_ms)
