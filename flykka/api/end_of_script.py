"""Detects at the exit of the interpreter whether the script ran to its end.

Functions of `atexit` get no information about it. An uncaught error leaves `sys.last_value`, but `sys.exit` leaves
nothing, not even its code. The frame of the script, however, knows where it stopped: at a return, or elsewhere.
"""

from __future__ import annotations

import dis
import sys
import threading
from types import FrameType


class EndOfScript:
    """Watches the script that is running when this object is created, on any thread."""

    def __init__(self) -> None:
        main = threading.main_thread().ident
        assert main is not None, "the main thread has no identifier"
        frame: FrameType = sys._current_frames()[main]
        while frame.f_back is not None:
            frame = frame.f_back
        self._script = frame

    def was_reached(self) -> bool:
        """Return False if an uncaught error or a `SystemExit` of any code ended the script."""
        last = self._script.f_code.co_code[self._script.f_lasti]
        return dis.opname[last].startswith("RETURN_") and not hasattr(sys, "last_value")
