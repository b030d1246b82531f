"""Ends an attempt: its threads return, its resources are freed, and its waiters are notified.

Nothing prevents an attempt from ending. If Spark is stopped or its JVM is gone, resources that cannot be freed are
logged. User code that does not return is interrupted after a while. Interrupts have no effect during one long call into
native code: then a warning names the running work, and the attempt counts as closed, as Flink gives up after
`task.cancellation.timeout`. `wait` returns only when nothing of the attempt runs any more; the next attempt of the same
subtask relies on this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from flykka.actors.machines.attempt.batches import input_addresses
from flykka.messages.attempt.answers import ChainClosed, EngineFailed
from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.errors import AttemptReplacedError, PredecessorRunsError

if TYPE_CHECKING:
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.spark_bridge.attempt.stage_executor import StageExecutor
    from flykka.spark_bridge.operators.lifecycle import OperatorLifecycle
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.session.attempt_scope import AttemptScope

logger = logging.getLogger("flykka.spark_bridge")

_LOOK_AGAIN_SECONDS = 0.05


class AttemptEnd:
    """Ends one attempt and, before it, the previous attempt of the same subtask. Thread-safe."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        scope: AttemptScope,
        workers: StageExecutor,
        operators: OperatorLifecycle,
        store: BatchStore,
        *,
        patience_seconds: float,
        report: Callable[[EngineFailed], object],
        predecessor: AttemptEnd | None,
    ) -> None:
        self._descriptor = descriptor
        self._scope = scope
        self._workers = workers
        self._operators = operators
        self._store = store
        self._patience = patience_seconds
        self._report = report
        self._predecessor = predecessor
        self._lock = Lock()
        self._begun = False
        self._closed = Event()
        self._ended = Event()
        self._failure: SerializedThrowable | None = None
        self._closer: Thread | None = None

    def end_in_background(self, *, cancel: bool) -> None:
        """Does not block. Later calls have an effect only with `cancel`."""
        self.stop(cancel=cancel)
        if self._is_first():
            self._start()

    def wait_closed(self, *, cancel: bool) -> ChainClosed:
        """Block until the attempt is closed or the cancellation timeout has passed."""
        self.end_in_background(cancel=cancel)
        self._closed.wait()
        return ChainClosed(accumulators=self._operators.accumulators(), failure=self._failure)

    def revoke(self, why: str) -> None:
        """Cancel an attempt. If its Task has not requested its end, its bridge receives a failure."""
        first = self._is_first()
        if first:
            replaced = AttemptReplacedError(why)
            self._report(EngineFailed(cause=serialized(f"attempt {self._descriptor.attempt}", replaced)))
        self.stop(cancel=True)
        if first:
            self._start()

    def wait(self, seconds: float) -> bool:
        """Wait until this attempt and its predecessors have ended. Return False if they have not ended in time."""
        return self._ended.wait(seconds)

    def await_predecessor(self) -> None:
        """Wait until the previous attempt has ended: the two must not stage or publish at the same time.

        Raises:
            PredecessorRunsError: the previous attempt still runs long after it was cancelled.
            AttemptCancelledError: this attempt was cancelled in the meantime.
        """
        predecessor = self._predecessor
        if predecessor is None:
            return
        predecessor.revoke(f"{self._descriptor.attempt} takes its place")
        deadline = monotonic() + self._patience
        while not predecessor.wait(_LOOK_AGAIN_SECONDS):
            self._scope.check()
            if monotonic() >= deadline:
                raise PredecessorRunsError(
                    f"the previous attempt, {predecessor._descriptor.attempt}, is still running {self._patience:g} s"
                    " after it was cancelled: both attempts would write"
                )
        self._replace(predecessor)

    def stop(self, *, cancel: bool) -> None:
        """Accept no more work. With `cancel`, running work is ended too."""
        if self._ended.is_set():
            return
        if cancel:
            # Done first, so that threads which are woken find the attempt cancelled.
            self._scope.refuse()
        self._workers.close(cancel=cancel)

    def _is_first(self) -> bool:
        with self._lock:
            first, self._begun = not self._begun, True
            return first

    def _start(self) -> None:
        Thread(target=self._run, name=f"{self._descriptor.attempt} closer", daemon=True).start()

    def _run(self) -> None:
        still_runs = True
        try:
            still_runs = self._wind_up(self._patience)
        finally:
            self._closed.set()
        if still_runs:
            # Work that has returned late may have allocated resources in the meantime.
            self._wind_up(None)
        predecessor = self._predecessor
        if predecessor is not None:
            # This attempt was never opened, so nothing has waited for its predecessor yet.
            predecessor.end_in_background(cancel=True)
            predecessor._ended.wait()
            self._replace(predecessor)
        self._ended.set()

    def _replace(self, predecessor: AttemptEnd) -> None:
        """The readers of the previous attempt's output now read this attempt's output."""
        self._predecessor = None
        attempt = predecessor._descriptor.attempt
        self._freed("the retained data of the previous attempt", lambda: self._store.release_produced(attempt))

    def _wind_up(self, seconds: float | None) -> bool:
        """Wait for the threads, at most `seconds` after cancellation; free resources. Return True if some still run."""
        running = self._workers.wait_idle(seconds) or self._wait_functions_closed(seconds)
        if running:
            logger.warning(
                "%s: has not ended %g s after it was cancelled, and is abandoned: %s",
                self._descriptor.attempt,
                seconds,
                ", ".join(running),
            )
        attempt, is_cancelled = self._descriptor.attempt, self._scope.is_cancelled
        addresses = input_addresses(self._descriptor)
        self._freed("its batches", lambda: self._store.release_attempt(attempt, addresses, is_cancelled=is_cancelled))
        if is_cancelled:
            self._freed("unfinished work", lambda: self._scope.sweep(keep=self._store.rdd_ids()))
        return bool(running)

    def _wait_functions_closed(self, seconds: float | None) -> tuple[str, ...]:
        """Close the rich functions once, on a separate thread, because user code may block. Return the names of work
        that still runs.
        """
        if not self._operators.runs_user_code:
            self._operators.close()
            return ()
        if self._closer is None:
            self._closer = Thread(target=self._close_functions, name=f"{self._descriptor.attempt} close", daemon=True)
            self._closer.start()
        deadline: float | None = None
        while self._closer.is_alive():
            self._closer.join(_LOOK_AGAIN_SECONDS)
            if seconds is not None and self._scope.is_cancelled:
                deadline = monotonic() + seconds if deadline is None else deadline
                if monotonic() >= deadline:
                    return ("closing its rich functions",)
        return ()

    def _close_functions(self) -> None:
        try:
            self._scope.enter()
        except Exception:
            # Spark is stopped or its JVM is gone, but the functions may hold other resources that must be released.
            logger.warning("%s: its rich functions are closed without Spark", self._descriptor.attempt, exc_info=True)
        failure = self._operators.close()
        if failure is None:
            return
        if self._scope.is_cancelled:
            # The attempt ends for another reason, which is reported instead.
            logger.warning("%s: %s failed", self._descriptor.attempt, failure, exc_info=failure)
        else:
            self._failure = serialized(str(failure), failure)

    def _freed(self, what: str, free: Callable[[], object]) -> None:
        try:
            free()
        except Exception:
            if self._scope.is_spark_lost:
                # Spark is stopped or its JVM is gone, and so are the blocks. The failure of the attempt reports that.
                return
            logger.warning("%s: cannot free %s", self._descriptor.attempt, what, exc_info=True)
