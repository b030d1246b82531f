"""The stacks of other running threads, as `faulthandler` dumps them.

`faulthandler` reads the threads' frames without creating objects for them. `sys._current_frames` creates objects, which
sometimes crashes CPython 3.11.
"""

from __future__ import annotations

import faulthandler
import re
import traceback
from collections.abc import Sequence
from itertools import takewhile
from tempfile import TemporaryFile

from flykka.runtime.cell.async_cell import AsyncTurn
from flykka.runtime.cell.cell import Cell

DUMPED_THREADS = 100
"""The maximum number of threads that are dumped, newest first. Each has at most its hundred innermost frames."""

_THREAD = re.compile(r"(?:Thread|Current thread) 0x(?P<thread>[0-9a-f]+) ")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_TURNS = frozenset(
    (function.__code__.co_filename, function.__name__)
    for function in (Cell._tell_turn, Cell._message_turn, Cell._signal_turn, AsyncTurn.step)
)
"""The functions that run for the duration of a turn or, in a coroutine, of a step."""

Stack = Sequence[traceback.FrameSummary]
"""The frames of a thread, innermost first, without their source."""


def stacks() -> dict[int, Stack]:
    with TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        dumped = file.read().decode(errors="replace")
    stacks_by_thread: dict[int, Stack] = {}
    for part in dumped.split("\n\n"):
        head, *lines = part.splitlines()
        if (thread := _THREAD.match(head)) is not None:
            frames = [match for match in map(_FRAME.match, lines) if match is not None]
            stacks_by_thread[int(thread["thread"], 16)] = [
                traceback.FrameSummary(each["file"], int(each["line"]), each["function"], lookup_line=False)
                for each in frames
            ]
    return stacks_by_thread


def stack_of_turn(thread: int) -> str:
    """Format the stack of a thread from the turn's own code inwards.

    With more than a hundred threads, only some are dumped, and a text replaces the other stacks.
    """
    stack = stacks().get(thread)
    if stack is None:
        return "  (it is not among the threads whose stack the interpreter dumps)"
    frames = takewhile(lambda frame: (frame.filename, frame.name) not in _TURNS, stack)
    return "".join(traceback.format_list(list(frames)[::-1])).rstrip("\n")
