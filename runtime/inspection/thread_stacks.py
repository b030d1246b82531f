"""The stack of another thread that runs, as `faulthandler` dumps it.

It reads the thread's own frames and makes no objects of them. `sys._current_frames` does, which CPython 3.11 does not
always survive.
"""

from __future__ import annotations

import faulthandler
import re
import traceback
from itertools import takewhile
from tempfile import TemporaryFile

from flykka.runtime.cell.async_turn import AsyncTurn
from flykka.runtime.cell.cell import Cell

_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_TURNS = frozenset(
    (function.__code__.co_filename, function.__name__)
    for function in (Cell._told_turn, Cell._message_turn, Cell._signal_turn, AsyncTurn.step)
)
"""The functions that run for as long as a turn lasts; of a coroutine, a step."""


def stack_of_turn(thread: int) -> str:
    """Format the stack of a thread from the turn's own code inwards.

    Of a process with more than a hundred threads not all are dumped: a text says so for the others.
    """
    with TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        dumped = file.read().decode(errors="replace")
    heads = (f"Thread 0x{thread:016x} ", f"Current thread 0x{thread:016x} ")
    lines = next((part.splitlines()[1:] for part in dumped.split("\n\n") if part.startswith(heads)), None)
    if lines is None:
        return "  (it is not among the threads of which the interpreter dumps the stack)"
    frames = [match for match in map(_FRAME.match, lines) if match is not None]
    own = takewhile(lambda frame: (frame["file"], frame["function"]) not in _TURNS, frames)
    summaries = [traceback.FrameSummary(each["file"], int(each["line"]), each["function"]) for each in own]
    return "".join(traceback.format_list(summaries[::-1])).rstrip("\n")
