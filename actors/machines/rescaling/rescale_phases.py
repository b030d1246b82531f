"""The phases of a rescale, and the legal moves between them."""

from __future__ import annotations

from enum import Enum, auto


class RescalePhase(Enum):
    """The phases of the rescale under way."""

    IDLE = auto()
    """No rescale is under way."""
    COUNTING = auto()
    """It waits for slots."""
    CHECKPOINTING = auto()
    APPLYING = auto()
    """The graph rescales, and its tasks are not deployed yet."""


R = RescalePhase

RESCALE_MOVES: dict[RescalePhase, tuple[RescalePhase, ...]] = {
    R.IDLE: (R.COUNTING,),
    R.COUNTING: (R.CHECKPOINTING, R.APPLYING, R.IDLE),
    R.CHECKPOINTING: (R.COUNTING, R.APPLYING, R.IDLE),
    R.APPLYING: (R.COUNTING, R.IDLE),
}
"""Back to COUNTING if the job fails meanwhile: it restarts with the slots that there are then."""
