"""The threads that work for one attempt: Spark's calls block, and no shared thread may wait for them.

Stages are numbered as they come. Each has a part that needs nothing but its input, `prepare`, which overlaps with that
of its neighbours, and a part that sees the attempt's state, `settle`, which runs in the order of the stages: one
stage's planning and committing hides behind another one's work, and the answers are in order. What outlives a stage
(snapshots, publishing) runs in a line of its own, one after the other.

Threads are daemons, started with the first work: a cluster of idle attempts has none.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread, get_ident
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Generic, TypeVar

from flykka.spark_bridge.thread_interrupts import ThreadInterrupts

if TYPE_CHECKING:
    from flykka.spark_bridge.scope import AttemptScope

Prepared = TypeVar("Prepared")

logger = logging.getLogger("flykka.spark_bridge")

_CANCEL_AGAIN_SECONDS = 0.05
_BEGINNING = "beginning to work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[Prepared]):
    """Work in two parts; `what` names it in a failure."""

    what: str
    prepare: Callable[[], Prepared]
    settle: Callable[[Prepared], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a thread is at: the piece of work by its number and in words, and when it was begun (monotonic time)."""

    piece: int
    what: str
    begun_ns: int


class Workers:
    """Runs the stages of an attempt, and its background work."""

    def __init__(
        self, scope: AttemptScope, on_failure: Callable[[str, BaseException], None], stages_in_flight: int = 2
    ) -> None:
        """`on_failure(what, raised)` is called once: after it no stage settles any more."""
        self._scope = scope
        self._on_failure = on_failure
        self._stages_in_flight = stages_in_flight
        self._changed = Condition()
        self._stages: deque[tuple[int, Stage[object]]] = deque()
        self._background: deque[tuple[str, Callable[[], None]]] = deque()
        self._begun = 0
        self._settled = 0
        self._failed = False
        self._closing = False
        self._stage_threads = 0
        self._background_threads = 0
        self._interrupts = ThreadInterrupts()
        self._pieces = 0
        self._at_work: dict[int, Work] = {}

    def run_stage(self, stage: Stage[Prepared]) -> None:
        """Let the stage run behind those before it. Nothing happens when the attempt is closing or has failed."""
        with self._changed:
            if self._closing or self._failed:
                return
            self._stages.append((self._begun, stage))  # type: ignore[arg-type] # one queue for stages of all kinds
            self._begun += 1
            if self._stage_threads < min(self._stages_in_flight, self._begun - self._settled):
                self._stage_threads += 1
                self._start(self._serve_stages, "stage")
            self._changed.notify_all()

    def run_in_background(self, what: str, work: Callable[[], None]) -> None:
        """Let `work` run behind what is in the background already."""
        with self._changed:
            if self._failed or self._scope.is_cancelled:
                return
            self._background.append((what, work))
            if self._background_threads == 0:
                self._background_threads = 1
                self._start(self._serve_background, "background")
            self._changed.notify_all()

    def close(self, *, cancel: bool) -> None:
        """Take nothing more; what is waiting is dropped where `cancel`. Returns at once."""
        with self._changed:
            self._closing = True
            if cancel:
                self._stages.clear()
                self._background.clear()
            self._changed.notify_all()

    def interrupt(self) -> None:
        """Interrupt the stages of an attempt that is cancelled. What is written or published is left to its end."""
        if self._scope.is_cancelled and self._interrupts.interrupt():
            logger.info("%s: interrupted, for it did not end: %s", self._scope.attempt, ", ".join(self._running()))

    def wait_idle(self, seconds: float | None = None) -> tuple[str, ...]:
        """Wait until no thread works any more; once the scope is cancelled, cancel its jobs again and again.

        From then on it takes no longer than `seconds`; when half of them are over stages are interrupted. What runs on
        is named; nothing where no thread works any more.
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
                # At once: what replaces this attempt is not to share the cores with it.
                can_cancel = can_cancel and self._cancel_jobs()
            self._wait_for_change()
        return ()

    def _cancel_jobs(self) -> bool:
        try:
            self._scope.cancel_jobs()
        except Exception:
            # Where Spark is stopped, or its JVM gone, jobs end by that, and the threads that wait for them.
            if not self._scope.is_spark_lost:
                logger.warning("%s: its Spark jobs cannot be cancelled", self._scope.attempt, exc_info=True)
            return False
        return True

    def at_work(self) -> tuple[Work, ...]:
        """What threads are at, but for those that wait: for work, or for the turn of theirs."""
        with self._changed:
            return tuple(self._at_work.values())

    def _running(self) -> tuple[str, ...]:
        return tuple(work.what for work in self.at_work())

    @property
    def _is_busy(self) -> bool:
        """Whether any thread still runs."""
        with self._changed:
            return bool(self._stage_threads or self._background_threads)

    def _wait_for_change(self) -> None:
        with self._changed:
            if self._stage_threads or self._background_threads:
                # Looked at with the lock in hand: who cancels takes it afterwards, to wake whoever waits.
                self._changed.wait(_CANCEL_AGAIN_SECONDS if self._scope.is_cancelled else None)

    def _start(self, target: Callable[[], None], role: str) -> None:
        Thread(target=target, name=f"{self._scope.attempt} {role}", daemon=True).start()

    def _serve_stages(self) -> None:
        try:
            self._enter()
            while (numbered := self._next_stage()) is not None:
                self._run(*numbered)
        except BaseException as raised:  # noqa: BLE001 - it is reported
            self._fail(_BEGINNING, raised)
        finally:
            with self._changed:
                self._stage_threads -= 1
                self._rest()
                self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            self._take_up(_BEGINNING)
        self._scope.enter()

    def _take_up(self, what: str) -> int:
        """The calling thread begins another piece of work; its number. The caller has the lock."""
        self._pieces += 1
        self._at_work[get_ident()] = Work(piece=self._pieces, what=what, begun_ns=monotonic_ns())
        return self._pieces

    def _rest(self) -> None:
        """The calling thread waits. The caller has the lock."""
        self._at_work.pop(get_ident(), None)

    def _next_stage(self) -> tuple[int, int, Stage[object]] | None:
        """The stage's number, that of the piece of work, the stage."""
        with self._changed:
            self._rest()
            while not self._stages:
                if self._closing or self._failed:
                    return None
                self._changed.wait()
            number, stage = self._stages.popleft()
            return number, self._take_up(stage.what), stage

    def _run(self, number: int, piece: int, stage: Stage[object]) -> None:
        raised: BaseException | None = None
        prepared: object = None
        try:
            self._scope.check()
            self._scope.begin(piece)
            with self._interrupts.allowed():
                prepared = stage.prepare()
        except BaseException as any_failure:  # noqa: BLE001 - it is reported, in its turn
            raised = any_failure
        with self._changed:
            self._rest()
            while self._settled != number and not self._failed and not self._scope.is_cancelled:
                self._changed.wait()
            if self._failed or self._scope.is_cancelled:
                return
            piece = self._take_up(stage.what)
        # It is this stage's turn until `_settled` moves on: no lock is held while it settles.
        if raised is None:
            try:
                self._scope.begin(piece)
                with self._interrupts.allowed():
                    stage.settle(prepared)
            except BaseException as any_failure:  # noqa: BLE001 - it is reported
                raised = any_failure
        if raised is not None:
            self._fail(stage.what, raised)
            return
        with self._changed:
            self._settled += 1
            self._changed.notify_all()

    def _serve_background(self) -> None:
        what = _BEGINNING
        try:
            self._enter()
            while (named := self._next_in_background()) is not None:
                piece, what, work = named
                self._scope.check()
                self._scope.begin(piece)
                work()
        except BaseException as raised:  # noqa: BLE001 - it is reported
            self._fail(what, raised)
        finally:
            with self._changed:
                self._background_threads -= 1
                self._rest()
                self._changed.notify_all()

    def _next_in_background(self) -> tuple[int, str, Callable[[], None]] | None:
        """The number of the piece of work, what it is, the work."""
        with self._changed:
            self._rest()
            while not self._background:
                # Stages that are still at work may hand something over.
                if self._failed or (self._closing and not self._stage_threads):
                    return None
                self._changed.wait()
            what, work = self._background.popleft()
            return self._take_up(what), what, work

    def _fail(self, what: str, raised: BaseException) -> None:
        with self._changed:
            first = not self._failed and not self._scope.is_cancelled
            self._failed = True
            self._stages.clear()
            self._background.clear()
            self._changed.notify_all()
        if first:
            self._on_failure(what, raised)
