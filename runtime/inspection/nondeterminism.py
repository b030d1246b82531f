"""Detects nondeterminism in turns: reads of the real clock, unseeded random numbers, sleeps, files, sockets, processes,
threads.

`sys.setprofile` reports every call of a C function, and the interpreter's audit events report constructors, so the name
under which code calls a function does not matter. Imports, logging and the like are allowed.
"""

from __future__ import annotations

import _thread
import datetime
import gc
import os
import random
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, FrameType
from typing import Any

from flykka.runtime.errors import NondeterminismError
from flykka.runtime.turn import RUNNING

_CLOCK = "context.now(), the time of the turn"
_CHANCE = "context.random, which repeats with the seed"
_SLEEP = "a timer, context.timers.start_once(...), which does not block the thread"
_WORK = "context.pipe_to_self(work, ...), which sends the result as a message"
_IDS = "context.new_id(...) or context.random, which repeat with the seed"

_TIMES = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime")
_THREADS = ("start_new_thread", "start_joinable_thread")
_CALLS: dict[object, tuple[str, str]] = {
    **{getattr(time, name): (f"time.{name}()", _CLOCK) for name in _TIMES},
    **{getattr(_thread, name): ("the start of a thread", _WORK) for name in _THREADS if hasattr(_thread, name)},
    time.sleep: ("time.sleep()", _SLEEP),
    os.urandom: ("os.urandom()", _IDS),
}
"""C functions, with their names in reports and the alternative to suggest."""

_AUDITED = {
    "open": ("open()", _WORK),
    "os.listdir": ("os.listdir()", _WORK),
    "os.scandir": ("os.scandir()", _WORK),
    "os.system": ("os.system()", _WORK),
    "subprocess.Popen": ("subprocess.Popen()", _WORK),
    "socket.__new__": ("socket.socket()", _WORK),
    "socket.connect": ("socket.connect()", _WORK),
    "socket.getaddrinfo": ("socket.getaddrinfo()", _WORK),
}

_LET_THROUGH = ("importlib", "linecache", "logging", "pkgutil", "tokenize", "traceback", "warnings")
"""The packages that may read clocks and files, because they log a turn or load its code."""

_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen")
_KERNEL = "flykka.runtime."
_DATES = ("now", "utcnow", "today")


@dataclass(frozen=True, slots=True)
class Nondeterminism:
    call: str
    place: str
    actor: str
    instead: str

    def text(self) -> str:
        return f"{self.actor} uses {self.call} in its turn, at {self.place}: use {self.instead}"


class _Watching(threading.local):
    report: Callable[[Nondeterminism], None] | None = None
    is_busy = False


_watching = _Watching()
_audit_is_on = threading.Lock()


@contextmanager
def watched(report: Callable[[Nondeterminism], None]) -> Iterator[None]:
    """Pass to `report` every nondeterministic call that an actor's turn makes on this thread in this block.

    If `report` raises, the exception is raised by the call.
    """
    if _audit_is_on.acquire(blocking=False):
        sys.addaudithook(_on_audit)  # This is permanent: an audit hook cannot be removed.
    outer, before, collects = _watching.report, sys.getprofile(), gc.isenabled()
    # Callbacks of the garbage collector, such as Hypothesis's, are not part of the turn in which the collector
    # happens to run.
    gc.disable()
    _watching.report = report
    sys.setprofile(_on_profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        _watching.report = outer
        if collects:
            gc.enable()


def refuse(nondeterminism: Nondeterminism) -> None:
    raise NondeterminismError(nondeterminism.text())


def _on_profile(frame: FrameType, event: str, arg: Any) -> None:
    if event == "c_call" and RUNNING.cell is not None:
        source = _source_of(arg)
        if source is not None:
            _report(*source, frame)


def _on_audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in _AUDITED and _watching.report is not None and RUNNING.cell is not None:
        _report(*_AUDITED[event], sys._getframe(1))


def _source_of(function: BuiltinFunctionType) -> tuple[str, str] | None:
    try:
        source = _CALLS.get(function)
    except TypeError:
        return None  # The method belongs to an unhashable object.
    if source is not None:
        return source
    name, owner = function.__name__, getattr(function, "__self__", None)
    if owner is _shared_random:
        return "the random module", _CHANCE
    if name in _DATES and isinstance(owner, type) and issubclass(owner, datetime.date):
        return f"{owner.__name__}.{name}()", _CLOCK
    return None


_shared_random = random.random.__self__  # type: ignore[attr-defined]  # The one instance behind the module's functions.


def _report(call: str, instead: str, frame: FrameType) -> None:
    report, cell = _watching.report, RUNNING.cell
    if report is None or cell is None or _watching.is_busy:
        return
    way = _calling_frame(frame)
    if way is None:
        return
    culprit, callee = way
    _watching.is_busy = True
    try:
        place = f"{culprit.f_code.co_filename}:{culprit.f_lineno}"
        report(Nondeterminism(call=callee or call, place=place, actor=cell.ref.path, instead=instead))
    finally:
        _watching.is_busy = False


def _calling_frame(frame: FrameType | None) -> tuple[FrameType, str | None] | None:
    """Return the nearest frame outside Python's library, with the library function called; None for allowed calls."""
    callee = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _LET_THROUGH or module.startswith(_KERNEL):
            return None
        filename = frame.f_code.co_filename
        if "site-packages" in filename or not filename.startswith(_LIBRARY):
            return frame, callee
        callee = f"{module}.{frame.f_code.co_name}()"
        frame = frame.f_back
    return None
