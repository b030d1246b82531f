"""The checkpoint with which a job ends: how far it is, and who wants it.

The end of the input wants it, and whoever stops the job (Flink's stop-with-savepoint). For the first it is tried again
until it succeeds, for without it the job never ends; a stop that fails is over, as in Flink, and the job goes on.
"""

from __future__ import annotations

from enum import Enum, auto


class FinalPhase(Enum):
    """How far the final checkpoint is."""

    NOT_REQUESTED = auto()
    WANTED = auto()
    WAITING_TO_RETRY = auto()
    PENDING = auto()
    COMPLETED = auto()


class FinalDemand(Enum):
    """Why a job is to end."""

    END_OF_DATA = auto()
    STOP = auto()


class FinalCheckpoint:
    """One per coordinator; when it begins and how it ends is told by the trigger."""

    def __init__(self) -> None:
        self.phase = FinalPhase.NOT_REQUESTED
        self._demands: set[FinalDemand] = set()

    @property
    def is_stop(self) -> bool:
        """Whether somebody stops the job with it."""
        return FinalDemand.STOP in self._demands

    @property
    def has_stopped(self) -> bool:
        """Whether a stop has got what it wanted: this checkpoint is to be kept."""
        return self.is_stop and self.phase is FinalPhase.COMPLETED

    @property
    def is_next(self) -> bool:
        """Whether it has begun, or begins as soon as the tasks run and nothing else is pending."""
        return self.phase in (FinalPhase.WANTED, FinalPhase.PENDING)

    @property
    def is_to_be_retried(self) -> bool:
        """Whether it has failed and is wanted all the same."""
        return self.phase is FinalPhase.WAITING_TO_RETRY

    def demand(self, demand: FinalDemand) -> bool:
        """It is wanted; whether nobody has wanted it before."""
        self._demands.add(demand)
        is_first = self.phase is FinalPhase.NOT_REQUESTED
        if is_first:
            self.phase = FinalPhase.WANTED
        return is_first

    def fail(self) -> bool:
        """It was given up; whether it was a stop's, which ends with that."""
        was_stop = self.is_stop
        self._demands.discard(FinalDemand.STOP)
        self.phase = FinalPhase.WAITING_TO_RETRY if self._demands else FinalPhase.NOT_REQUESTED
        return was_stop

    def forget_attempts(self) -> None:
        """The attempts that reached the end of their data are over. A stop waits for those that follow."""
        self._demands.discard(FinalDemand.END_OF_DATA)
        self.phase = FinalPhase.WANTED if self._demands else FinalPhase.NOT_REQUESTED

    def forget_stop(self) -> None:
        """The job has failed meanwhile: it goes on, or ends, without being stopped."""
        self._demands.discard(FinalDemand.STOP)

    def check(self) -> None:
        """Raise `AssertionError` where it is on its way and nobody wants it."""
        assert bool(self._demands) == (self.phase is not FinalPhase.NOT_REQUESTED), (self.phase, self._demands)
