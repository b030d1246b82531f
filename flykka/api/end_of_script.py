"""Detects at interpreter exit whether the script ran to its end.

`atexit` callbacks get no information about this. An uncaught error sets `sys.last_value`, but `sys.exit` leaves no
trace. The frame of the script shows where it stopped: at a return, or elsewhere.
"""

from __future__ import annotations

import dis
import sys
import threading
from types import FrameType


class EndOfScript:
    """Observes the script that is running when this object is created, on any thread."""

    def __init__(self) -> None:
        main = threading.main_thread().ident
        assert main is not None, "the main thread has no identifier"
        frame: FrameType = sys._current_frames()[main]
        while frame.f_back is not None:
            frame = frame.f_back
        self._script = frame

    def was_reached(self) -> bool:
        """Return False if the script was ended by an uncaught error or by `SystemExit`, whatever the exit code."""
        last = self._script.f_code.co_code[self._script.f_lasti]
        return dis.opname[last].startswith("RETURN_") and not hasattr(sys, "last_value")
