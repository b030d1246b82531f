"""The checkpoint with which a job ends: how far it is, and who wants it.

The end of the input wants it, and the stop of a job (Flink's stop-with-savepoint). For the first it is tried again
until it succeeds, for without it the job never ends; a stop that fails is over, and the job goes on.

Flink fails the job where a task declines that savepoint: its tasks wait behind the barrier for the savepoint to
complete, which it never does then (FLINK-12858, CheckpointFailureManager). Here they hear that it was aborted, and read
on. Only sources that were drained have told that they end: that job is restarted.
"""

from __future__ import annotations

from enum import Enum, auto

from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_final_checkpoint, for_sync_savepoint
from flykka.actors.machines.phases import next_phase
from flykka.messages.control.checkpoint_coordination import StopCheckpointRequest


class FinalPhase(Enum):
    """The phase of the final checkpoint."""

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
"""COMPLETED is no end: the attempts that follow need a final checkpoint of their own."""


class FinalCheckpoint:
    """The final checkpoint of one coordinator; the trigger tells its begin and its end."""

    def __init__(self) -> None:
        self.phase = FinalPhase.NOT_REQUESTED
        self._at_end_of_data = False
        self._stop: StopCheckpointRequest | None = None
        self._begun: int | None = None

    @property
    def stop(self) -> StopCheckpointRequest | None:
        """The stop that wants it."""
        return self._stop

    @property
    def is_wanted(self) -> bool:
        """True if it is wanted."""
        return self._at_end_of_data or self._stop is not None

    @property
    def begun(self) -> int | None:
        """Its id, where it has begun and was not given up: what it is going to be cannot be changed any more."""
        return self._begun

    @property
    def keeps_checkpoint(self) -> bool:
        """True if a stop has got a checkpoint that is to be kept. A savepoint is kept by itself."""
        return self.phase is FinalPhase.COMPLETED and self._stop is not None and self._stop.target_location is None

    @property
    def is_next(self) -> bool:
        """True if it has begun, or begins as soon as it can."""
        return self.phase in (FinalPhase.WANTED, FinalPhase.REQUESTED, FinalPhase.PENDING)

    @property
    def is_to_be_retried(self) -> bool:
        """True if it has failed and is wanted all the same."""
        return self.phase is FinalPhase.WAITING_TO_RETRY

    def properties(self) -> CheckpointProperties:
        """Its properties, for those who want it now."""
        if self._stop is not None and self._stop.target_location is not None:
            return for_sync_savepoint(self._stop.target_location, drain=self._stop.drain)
        return for_final_checkpoint(drain=self._stop is not None and self._stop.drain)

    def move(self, phase: FinalPhase) -> None:
        """Move to the phase. Raises `IllegalTransitionError` if that is no legal move."""
        self.phase = next_phase(FINAL_MOVES, self.phase, phase)

    def reach_end_of_data(self) -> bool:
        """The input is at its end; whether nobody has wanted a final checkpoint before."""
        self._at_end_of_data = True
        return self._want()

    def stop_with(self, stop: StopCheckpointRequest) -> bool:
        """The job is stopped; whether nobody has wanted a final checkpoint before. There is one stop at a time."""
        self._stop = self._stop or stop
        return self._want()

    def note_begun(self, checkpoint_id: int) -> None:
        """It is pending."""
        self._begun = checkpoint_id
        self.move(FinalPhase.PENDING)

    def complete(self) -> None:
        """It is complete."""
        self.move(FinalPhase.COMPLETED)

    def decline(self) -> None:
        """It was not its turn: it is still wanted, by requesters that have not given up meanwhile."""
        if self.phase is FinalPhase.REQUESTED:
            self.move(FinalPhase.WANTED if self.is_wanted else FinalPhase.NOT_REQUESTED)

    def fail(self) -> StopCheckpointRequest | None:
        """It was given up; the stop that ends with that."""
        stop, self._stop, self._begun = self._stop, None, None
        self.move(FinalPhase.WAITING_TO_RETRY if self._at_end_of_data else FinalPhase.NOT_REQUESTED)
        return stop

    def forget_attempts(self) -> None:
        """The attempts that reached the end of their data are over. A stop waits for those that follow."""
        self._at_end_of_data = False
        self._begun = None
        if self._stop is None:
            self.move(FinalPhase.NOT_REQUESTED)
        elif self.phase is not FinalPhase.REQUESTED:
            self.move(FinalPhase.WANTED)

    def forget_stop(self) -> StopCheckpointRequest | None:
        """The job has gone another way: it goes on, or ends, without being stopped. The stop that ends with that."""
        stop, self._stop = self._stop, None
        return None if self.phase is FinalPhase.COMPLETED else stop

    def check(self) -> None:
        """Raise `AssertionError` where it is on its way and nobody wants it."""
        assert self.is_wanted == (self.phase is not FinalPhase.NOT_REQUESTED), (self.phase, self._stop)
        assert (self._begun is not None) == (self.phase in (FinalPhase.PENDING, FinalPhase.COMPLETED))

    def _want(self) -> bool:
        is_first = self.phase is FinalPhase.NOT_REQUESTED
        if is_first:
            self.move(FinalPhase.WANTED)
        return is_first
