"""The threads of this process with their stacks (Flink's ThreadDumpInfo), and the attempts for which they work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from traceback import FrameSummary

from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.rest.responses.io_metrics import Json
from flykka.runtime.inspection.thread_stacks import DUMPED_THREADS, Stack, stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSample:
    """A thread and its stack, innermost frame first. The stack is None if the interpreter has not dumped it."""

    ident: int
    native_id: int | None
    name: str
    is_daemon: bool
    stack: Stack | None

    @property
    def attempt(self) -> ExecutionAttemptId:
        """The attempt whose stages, snapshots or commits the thread runs, taken from the thread's name."""
        return ExecutionAttemptId(self.name.partition(" ")[0])


Sample = Callable[[], list[ThreadSample]]


def sample_threads() -> list[ThreadSample]:
    """Sample all threads, oldest first. Only the newest hundred threads have stacks."""
    stacks_by_thread = stacks()
    return [
        ThreadSample(
            ident=thread.ident,
            native_id=thread.native_id,
            name=thread.name,
            is_daemon=thread.daemon,
            stack=stacks_by_thread.get(thread.ident),
        )
        for thread in threading.enumerate()
        if thread.ident is not None
    ]


def thread_dump(threads: Collection[ThreadSample]) -> Json:
    """Format the threads as in Flink. Each is a text like Java's."""
    return {
        "threadInfos": [{"threadName": each.name, "stringifiedThreadInfo": _text(each)} for each in threads],
    }


def place_of(frame: FrameSummary, modules: dict[str, str]) -> str:
    """Format a frame as `module.function`. If it belongs to no module, the file takes the module's place."""
    return f"{modules.get(frame.filename, frame.filename)}.{frame.name}"


def modules_by_file() -> dict[str, str]:
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return {file: name for name, file in files if isinstance(file, str)}


def _text(thread: ThreadSample) -> str:
    head = f'"{thread.name}" Id={thread.ident}{" (daemon)" if thread.is_daemon else ""}\n'
    if thread.stack is None:
        return f"{head}\t(no stack: the interpreter dumps those of the newest {DUMPED_THREADS} threads)\n\n"
    modules = modules_by_file()
    lines = (f"\tat {place_of(each, modules)}({each.filename}:{each.lineno})\n" for each in thread.stack)
    return f"{head}{''.join(lines)}\n"
