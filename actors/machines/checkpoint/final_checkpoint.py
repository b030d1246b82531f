"""The phase of the final checkpoint, with which a job ends, and the requests for it.

The final checkpoint is requested at the end of the input and when a job is stopped (Flink's stop-with-savepoint). At
the end of the input it is retried until it succeeds, because the job cannot end without it. A stop fails if the
checkpoint fails, and the job continues.

Flink fails the job if a task declines that savepoint, because its tasks wait after the barrier for a savepoint that
will never complete (FLINK-12858, CheckpointFailureManager). Here the tasks are notified of the abort and continue to
read. A job whose sources were drained is restarted, because the sources have announced their end.
"""

from __future__ import annotations

from enum import Enum, auto

from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_final_checkpoint, for_sync_savepoint
from flykka.actors.machines.states import next_phase
from flykka.messages.control.checkpoint_coordination import StopCheckpointRequest


class FinalPhase(Enum):
    NOT_REQUESTED = auto()
    WANTED = auto()
    REQUESTED = auto()
    WAITING_TO_RETRY = auto()
    PENDING = auto()
    COMPLETED = auto()


F = FinalPhase

FINAL_MOVES: dict[FinalPhase, tuple[FinalPhase, ...]] = {
    F.NOT_REQUESTED: (F.WANTED,),
    F.WANTED: (F.REQUESTED, F.WAITING_TO_RETRY, F.NOT_REQUESTED),
    F.REQUESTED: (F.PENDING, F.WANTED, F.WAITING_TO_RETRY, F.NOT_REQUESTED),
    F.WAITING_TO_RETRY: (F.WANTED, F.NOT_REQUESTED),
    F.PENDING: (F.COMPLETED, F.WANTED, F.WAITING_TO_RETRY, F.NOT_REQUESTED),
    F.COMPLETED: (F.WANTED, F.NOT_REQUESTED),
}
"""COMPLETED is not terminal: after a restart, the new attempts need a final checkpoint of their own."""


class FinalCheckpoint:
    """The final checkpoint of one coordinator. `CheckpointTrigger` reports when it begins and ends."""

    def __init__(self) -> None:
        self.phase = FinalPhase.NOT_REQUESTED
        self._at_end_of_data = False
        self._stop: StopCheckpointRequest | None = None
        self._begun: int | None = None

    @property
    def stop(self) -> StopCheckpointRequest | None:
        return self._stop

    @property
    def is_needed(self) -> bool:
        return self._at_end_of_data or self._stop is not None

    @property
    def begun(self) -> int | None:
        """The id of the checkpoint, from its start until it is aborted. Its properties do not change in that time."""
        return self._begun

    @property
    def keeps_checkpoint(self) -> bool:
        """True if a stop has completed a checkpoint, which must be retained. A savepoint is retained anyway."""
        return self.phase is FinalPhase.COMPLETED and self._stop is not None and self._stop.target_location is None

    @property
    def is_next(self) -> bool:
        return self.phase in (FinalPhase.WANTED, FinalPhase.REQUESTED, FinalPhase.PENDING)

    @property
    def is_to_be_retried(self) -> bool:
        return self.phase is FinalPhase.WAITING_TO_RETRY

    def properties(self) -> CheckpointProperties:
        if self._stop is not None and self._stop.target_location is not None:
            return for_sync_savepoint(self._stop.target_location, drain=self._stop.drain)
        return for_final_checkpoint(drain=self._stop is not None and self._stop.drain)

    def move(self, phase: FinalPhase) -> None:
        self.phase = next_phase(FINAL_MOVES, self.phase, phase)

    def reach_end_of_data(self) -> bool:
        """Request the checkpoint for the end of the input. Returns True if this is the first request."""
        self._at_end_of_data = True
        return self._request()

    def stop_with(self, stop: StopCheckpointRequest) -> bool:
        """Request the checkpoint for a stop, one at a time. Returns True if this is the first request."""
        self._stop = self._stop or stop
        return self._request()

    def record_begun(self, checkpoint_id: int) -> None:
        self._begun = checkpoint_id
        self.move(FinalPhase.PENDING)

    def complete(self) -> None:
        self.move(FinalPhase.COMPLETED)

    def decline(self) -> None:
        """Make a declined request due again, unless its requesters have cancelled it meanwhile."""
        if self.phase is FinalPhase.REQUESTED:
            self.move(FinalPhase.WANTED if self.is_needed else FinalPhase.NOT_REQUESTED)

    def fail(self) -> StopCheckpointRequest | None:
        """Record that the checkpoint was aborted. Returns the stop that fails because of this."""
        stop, self._stop, self._begun = self._stop, None, None
        self.move(FinalPhase.WAITING_TO_RETRY if self._at_end_of_data else FinalPhase.NOT_REQUESTED)
        return stop

    def forget_attempts(self) -> None:
        """Forget the end of the input, which ended attempts have reported. A stop waits for the new attempts."""
        self._at_end_of_data = False
        self._begun = None
        if self._stop is None:
            self.move(FinalPhase.NOT_REQUESTED)
        elif self.phase is not FinalPhase.REQUESTED:
            self.move(FinalPhase.WANTED)

    def forget_stop(self) -> StopCheckpointRequest | None:
        """Abandon the stop, because the job continues or ends otherwise. Returns the stop, which fails."""
        stop, self._stop = self._stop, None
        return None if self.phase is FinalPhase.COMPLETED else stop

    def check(self) -> None:
        assert self.is_needed == (self.phase is not FinalPhase.NOT_REQUESTED), (self.phase, self._stop)
        assert (self._begun is not None) == (self.phase in (FinalPhase.PENDING, FinalPhase.COMPLETED))

    def _request(self) -> bool:
        is_first = self.phase is FinalPhase.NOT_REQUESTED
        if is_first:
            self.move(FinalPhase.WANTED)
        return is_first
