"""Where a cell is in its life."""

from __future__ import annotations

from enum import Enum, auto


class Life(Enum):
    """Only a RUNNING cell handles messages; every cell handles signals until it has ENDED."""

    STARTING = auto()
    """The instance is not made yet."""
    RUNNING = auto()
    AWAITING = auto()
    """Waits for what the coroutine awaits that handles a message."""
    FAILED = auto()
    """Waits for the parent's directive."""
    RESTARTING = auto()
    """Waits for children to end before the new instance is made."""
    STOPPING = auto()
    """Waits for children to end before `post_stop`."""
    ENDING = auto()
    """`post_stop` has run; the burial comes behind the record of this turn."""
    ENDED = auto()
