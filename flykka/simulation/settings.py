"""Settings of a simulation, beside its seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class FaultKind(StrEnum):
    """Kinds of faults, and the requests of clients that may come at any moment."""

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
    """The faults that are drawn from, and where the trace of a run goes (None: nowhere).

    With `digest` a run is told by a digest of all its turns. A job that has not ended `patience_ms` of virtual time
    behind the last fault makes no progress, and neither does one that keeps everybody busy for `max_steps`.
    """

    faults: frozenset[FaultKind] = ALL_FAULTS
    trace_path: Path | None = None
    digest: bool = False
    max_faults: int = 4
    patience_ms: int = 120_000
    max_steps: int = 200_000
