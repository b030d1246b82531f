"""Tells at the exit of the interpreter whether the script has come to its end or was left before.

Nothing tells that to functions of `atexit`. An error that nobody has caught leaves `sys.last_value`; `sys.exit` leaves
nothing at all, not even its code. But the frame of the script knows where it has stopped: at a return, or not.
"""

from __future__ import annotations

import dis
import sys
import threading
from types import FrameType


class EndOfScript:
    """Of the script that runs while this is made, on whatever thread."""

    def __init__(self) -> None:
        main = threading.main_thread().ident
        assert main is not None, "the main thread has been started"
        frame: FrameType = sys._current_frames()[main]
        while frame.f_back is not None:
            frame = frame.f_back
        self._script = frame

    def was_reached(self) -> bool:
        """Not where an error that nobody has caught, or a `SystemExit` of any code, has ended the script."""
        last = self._script.f_code.co_code[self._script.f_lasti]
        return dis.opname[last].startswith("RETURN_") and not hasattr(sys, "last_value")
