"""Settings of a simulation, in addition to its seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class FaultKind(StrEnum):
    """Kinds of faults, and requests of clients that may arrive at any time."""

    DELAY = "delay"
    LOSS = "loss"
    DUPLICATE = "duplicate"
    CRASH = "crash"
    KILL = "kill"
    STAGE = "stage"
    SLOW = "slow"
    STORAGE = "storage"
    TIMER = "timer"
    CLOCK = "clock"
    MASTER = "master"
    CUT = "cut"
    HEARTBEAT = "heartbeat"
    REQUEST = "request"


ALL_FAULTS = frozenset(FaultKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """The faults to draw from, and the file for the trace of a run (None: no trace).

    With `digest` the outcome has a digest of all turns. A job makes no progress if it has not ended `patience_ms` of
    virtual time after the last fault, or if its actors are busy for more than `max_steps`. `max_faults` limits the
    faults of each job.
    """

    faults: frozenset[FaultKind] = ALL_FAULTS
    trace_path: Path | None = None
    digest: bool = False
    max_faults: int = 4
    patience_ms: int = 120_000
    max_steps: int = 200_000
