"""The threads of one attempt: Spark's calls block, and no shared thread may wait for them.

Each lane has a queue. Two threads run stages, so that planning and committing one stage overlap with the Spark job of
another. Snapshots and publishing, which outlive a stage, run one after the other. The machine of the attempt decides
the order and submits the work. The engine's own work has a separate queue: it reads restored state and merges state.

Threads are daemons that are started when their first work is submitted, so idle attempts have no threads.
"""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Condition, Lock, Thread, get_ident, local
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any, TypeVar

from flykka.actors.machines.attempt.stages import STAGES_IN_FLIGHT
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import Lane
from flykka.spark_bridge.errors import AttemptCancelledError

if TYPE_CHECKING:
    from flykka.runtime.dispatch.dispatcher import Pipe
    from flykka.spark_bridge.session.attempt_scope import AttemptScope

T = TypeVar("T")

logger = logging.getLogger("flykka.spark_bridge")

OWN_WORK = 0
"""The work number of background work, which the attempt's machine did not start."""

REMEMBERED = 40

_CANCEL_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """`started_ns` is monotonic time."""

    piece: int
    what: str
    started_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedWork:
    """`ended_ns` is monotonic time. The row counts are set only for stages."""

    work: RunningWork
    ended_ns: int
    rows_in: int | None = None
    rows_out: int | None = None
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    number: int
    what: str
    run: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class _Line:
    limit: int
    jobs: deque[_Job] = field(default_factory=deque)
    threads: int = 0
    idle: int = 0


class StageExecutor:
    def __init__(self, scope: AttemptScope) -> None:
        self._scope = scope
        self._changed = Condition()
        self._lines: Mapping[Lane, _Line] = {
            Lane.STAGES: _Line(limit=STAGES_IN_FLIGHT),
            Lane.BACKGROUND: _Line(limit=1),
        }
        self._own = _Line(limit=1)
        self._closing = False
        self._interrupts = _ThreadInterrupts()
        self._running_work: dict[int, RunningWork] = {}
        self._finished: deque[FinishedWork] = deque(maxlen=REMEMBERED)
        self._entered = local()

    def run(self, lane: Lane, number: int, what: str, pipe: Pipe[Any]) -> None:
        """Run the work of `pipe` in its lane. Does nothing if the attempt is closing."""
        guarded = pipe.with_work(partial(self._recorded, lane, number, what, pipe.work))
        match lane:
            case Lane.AT_ONCE:
                pipe.run()
            case Lane.END:
                Thread(target=pipe.run, name=f"{self._scope.attempt} end", daemon=True).start()
            case _:
                self._put(self._lines[lane], lane, _Job(number=number, what=what, run=guarded.run))

    def run_in_background(
        self, what: str, work: Callable[[], None], on_failure: Callable[[BaseException], object]
    ) -> None:
        def run() -> None:
            try:
                self._guarded(Lane.BACKGROUND, OWN_WORK, what, work)
            except BaseException as raised:  # noqa: BLE001 - it is reported
                if not self._scope.is_cancelled:
                    on_failure(raised)

        self._put(self._own, "own work", _Job(number=OWN_WORK, what=what, run=run))

    def close(self, *, cancel: bool) -> None:
        """Accept no more work. Drop the engine's queued work or, with `cancel`, all queued work. Does not block."""
        with self._changed:
            self._closing = True
            for line in self._all if cancel else (self._own,):
                line.jobs.clear()
            self._changed.notify_all()

    def interrupt(self) -> None:
        """Interrupt the stages of a cancelled attempt. Writing and publishing are completed."""
        if self._scope.is_cancelled and self._interrupts.interrupt():
            logger.info("%s: interrupted because it did not end: %s", self._scope.attempt, ", ".join(self._running()))

    def wait_idle(self, seconds: float | None = None) -> tuple[str, ...]:
        """Wait until all threads are idle. Once the scope is cancelled, its Spark jobs are cancelled repeatedly.

        After cancellation this waits at most `seconds`, and interrupts stages after half of this time. Returns the
        names of work that still runs.
        """
        deadline: float | None = None
        can_cancel = True
        while self._is_busy:
            if self._scope.is_cancelled:
                if seconds is not None:
                    deadline = monotonic() + seconds if deadline is None else deadline
                    if monotonic() >= deadline:
                        return self._running()
                    if monotonic() >= deadline - seconds / 2:
                        self.interrupt()
                # Cancelled at once: the next attempt must not share the cores with this attempt.
                can_cancel = can_cancel and self._cancel_jobs()
            self._wait_for_change()
        return ()

    def running(self) -> tuple[RunningWork, ...]:
        with self._changed:
            return tuple(self._running_work.values())

    def finished(self) -> tuple[FinishedWork, ...]:
        """Return the most recently finished work, oldest first."""
        with self._changed:
            return tuple(self._finished)

    def _recorded(self, lane: Lane, number: int, what: str, work: Callable[[], T]) -> T:
        answer: object = None
        has_failed = True
        try:
            result = self._guarded(lane, number, what, work)
            answer, has_failed = result, False
            return result
        finally:
            rows = (answer.rows_in, answer.rows_out) if isinstance(answer, StageResult) else (None, None)
            with self._changed:
                running = self._running_work[get_ident()]
                done = FinishedWork(
                    work=running, ended_ns=monotonic_ns(), rows_in=rows[0], rows_out=rows[1], has_failed=has_failed
                )
                self._finished.append(done)

    def _put(self, line: _Line, name: str, job: _Job) -> None:
        with self._changed:
            if self._closing or self._scope.is_cancelled:
                return
            line.jobs.append(job)
            if line.idle < len(line.jobs) and line.threads < line.limit:
                line.threads += 1
                Thread(target=self._serve, args=(line,), name=f"{self._scope.attempt} {name}", daemon=True).start()
            self._changed.notify_all()

    def _serve(self, line: _Line) -> None:
        try:
            while (job := self._next(line)) is not None:
                job.run()
        finally:
            with self._changed:
                line.threads -= 1
                self._running_work.pop(get_ident(), None)
                self._changed.notify_all()

    def _next(self, line: _Line) -> _Job | None:
        with self._changed:
            self._running_work.pop(get_ident(), None)
            line.idle += 1
            while not line.jobs and not self._closing:
                self._changed.wait()
            line.idle -= 1
            if not line.jobs:
                return None
            job = line.jobs.popleft()
            self._running_work[get_ident()] = RunningWork(piece=job.number, what=job.what, started_ns=monotonic_ns())
            return job

    def _guarded(self, lane: Lane, number: int, what: str, work: Callable[[], T]) -> T:
        """Run work on a thread in the attempt's Spark job group, unless the attempt was cancelled."""
        if not getattr(self._entered, "scope", False):
            self._scope.enter()
            self._entered.scope = True
        self._scope.check()
        self._scope.set_job_group(number, what)
        if lane is not Lane.STAGES:
            return work()
        with self._interrupts.allowed():
            return work()

    def _cancel_jobs(self) -> bool:
        try:
            self._scope.cancel_jobs()
        except Exception:
            # If Spark is stopped or its JVM is gone, its jobs have ended, and the waiting threads end too.
            if not self._scope.is_spark_lost:
                logger.warning("%s: its Spark jobs cannot be cancelled", self._scope.attempt, exc_info=True)
            return False
        return True

    def _running(self) -> tuple[str, ...]:
        return tuple(work.what for work in self.running())

    @property
    def _all(self) -> tuple[_Line, ...]:
        return (*self._lines.values(), self._own)

    @property
    def _is_busy(self) -> bool:
        with self._changed:
            return any(line.threads for line in self._all)

    def _wait_for_change(self) -> None:
        with self._changed:
            if any(line.threads for line in self._all):
                # Checked with the lock held: a cancelling thread acquires the lock afterwards, to wake this thread.
                self._changed.wait(_CANCEL_AGAIN_SECONDS if self._scope.is_cancelled else None)


class _ThreadInterrupts:
    """Threads that run user code and may be interrupted, like Flink's TaskInterrupter.

    While a thread can be interrupted it neither holds nor acquires one of our locks. CPython raises an exception in
    another thread between two bytecode instructions. So code that computes, sleeps in short steps or waits for Spark is
    interrupted at once, but a long call into native code is interrupted only when it returns.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside: set[int] = set()

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Allow interrupts of the calling thread in this block; an interrupt raises `AttemptCancelledError`."""
        me = get_ident()
        with self._lock:
            self._inside.add(me)
        try:
            yield
        finally:
            # A pending interrupt is raised before the end of this block. Afterwards there is no interrupt.
            with self._lock:
                self._inside.discard(me)

    def interrupt(self) -> int:
        with self._lock:
            interrupted = [thread for thread in self._inside if _raise_in(thread)]
            self._inside.clear()
        return len(interrupted)


def _raise_in(thread: int) -> bool:
    raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(AttemptCancelledError))
    return bool(raised)
