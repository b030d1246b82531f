"""The phases of a job at its JobManager, and the legal moves between them."""

from __future__ import annotations

from enum import Enum


class JobPhase(Enum):
    """The phase of a job; the values are predicates for explanations."""

    ACCEPTING = "is being accepted: its graph is checked and stored"
    STARTING = "waits for a new JobMaster: the store is told of it first"
    AWAITING_CODE = "waits for its application: the job was recovered, and has no code here before it is submitted"
    RUNNING = "is run by its JobMaster"
    RELEASING = "has lost its JobMaster, whose work is being ended"
    PUTTING_AWAY = "has ended, and is being put away"
    SUSPENDED = "is suspended: somebody else leads, or nobody"


P = JobPhase

JOB_PHASE_MOVES: dict[JobPhase, tuple[JobPhase, ...]] = {
    P.ACCEPTING: (P.STARTING, P.AWAITING_CODE, P.RUNNING, P.PUTTING_AWAY, P.SUSPENDED),
    P.STARTING: (P.RUNNING, P.SUSPENDED),
    P.AWAITING_CODE: (P.ACCEPTING, P.RUNNING, P.PUTTING_AWAY, P.SUSPENDED),
    P.RUNNING: (P.RELEASING, P.PUTTING_AWAY, P.SUSPENDED),
    P.RELEASING: (P.STARTING, P.PUTTING_AWAY, P.SUSPENDED),
    P.PUTTING_AWAY: (P.SUSPENDED,),
    P.SUSPENDED: (P.ACCEPTING, P.STARTING, P.AWAITING_CODE, P.RUNNING, P.PUTTING_AWAY),
}
"""The store may accept a job while its JobManager is suspended: the job runs when that leads again."""
