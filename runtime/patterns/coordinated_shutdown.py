"""The shutdown of a system in phases: services stop before the services on which they depend, and the actors last.

Follows Akka's CoordinatedShutdown without its phases for clusters. The shutdown starts with `terminate()` and at the
exit of the interpreter, and runs once. The tasks of a phase run in parallel on the I/O pool, each with a deadline. A
task that fails or is late is logged, and the shutdown continues without it. If the guardian is killed, which is a
crash, no task runs.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from flykka.runtime.durations import Duration, format_ms, positive_duration_ms
from flykka.runtime.errors import ShutdownBegunError
from flykka.runtime.futures.future import Future
from flykka.runtime.signals import Stop
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem, SystemTermination
    from flykka.runtime.time.clock import Alarm

Task = Callable[[], object]
"""A function for the I/O pool, which may block. If it returns a kernel future, the task ends when the future completes.
"""

logger = logging.getLogger("flykka.runtime")

_living: weakref.WeakKeyDictionary[ActorSystem, int] = weakref.WeakKeyDictionary()
"""The living systems, with the id of the process that created them: a forked process has none of their threads."""


class ShutdownReason(StrEnum):
    UNKNOWN = "unknown"
    ACTOR_SYSTEM_TERMINATE = "actor system terminated"
    INTERPRETER_EXIT = "interpreter exit"


BEFORE_SERVICE_UNBIND = "before-service-unbind"
"""Notify others that the service is about to end."""
SERVICE_UNBIND = "service-unbind"
"""Accept no new requests."""
SERVICE_REQUESTS_DONE = "service-requests-done"
"""Wait for accepted requests."""
SERVICE_STOP = "service-stop"
"""Close the services."""
BEFORE_ACTOR_SYSTEM_TERMINATE = "before-actor-system-terminate"
"""Send last messages to actors."""
ACTOR_SYSTEM_TERMINATE = "actor-system-terminate"
"""The kernel's own phase: all actors stop, children before parents."""

_DEFAULT_TIMEOUT_MS = 5_000
_ACTORS_AT_EXIT_MS = 2_000
"""The maximum time in ms for which the interpreter's exit waits for the actors: a blocking actor would delay it
forever.
"""


_PHASES = (
    BEFORE_SERVICE_UNBIND,
    SERVICE_UNBIND,
    SERVICE_REQUESTS_DONE,
    SERVICE_STOP,
    BEFORE_ACTOR_SYSTEM_TERMINATE,
)
"""The phases in order, without the last phase, in which the actors stop."""


class CoordinatedShutdown:
    """The phases and tasks of a system, at `system.coordinated_shutdown`. May be used from any thread, and in turns."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._tasks: dict[str, list[_ShutdownTask]] = {}
        self._to_come: list[str] | None = None
        """The phases that have not started yet. None before the shutdown."""
        self._pending: dict[_ShutdownTask, None] = {}
        self.reason: str | None = None
        """None before the shutdown."""

    def add_task(self, phase: str, name: str, task: Task, *, timeout: Duration | None = None) -> Callable[[], None]:
        """Run `task` in `phase`, by default for at most 5 seconds. Returns a function that removes the task.

        Raises:
            ValueError: there is no such phase.
            ShutdownBegunError: the phase has already started.
        """
        with self._lock:
            if phase not in _PHASES:
                raise ValueError(f"task {name!r} is for phase {phase!r}, which is not one of {', '.join(_PHASES)}")
            if self._to_come is not None and phase not in self._to_come:
                raise ShutdownBegunError(
                    f"task {name!r} was added too late: phase {phase!r} has started ({self.reason})"
                )
            timeout_ms = _DEFAULT_TIMEOUT_MS if timeout is None else positive_duration_ms(timeout, "timeout")
            added = _ShutdownTask(self, phase, name, task, timeout_ms)
            self._tasks.setdefault(phase, []).append(added)

        def remove() -> None:
            with self._lock:
                tasks = self._tasks.get(phase, [])
                if added in tasks:
                    tasks.remove(added)

        return remove

    def add_actor_termination_task(
        self, phase: str, name: str, ref: ActorRef, message: Message | None = None, *, timeout: Duration | None = None
    ) -> Callable[[], None]:
        """Stop the actor in `phase`, or send it `message` on which it stops itself, and wait for its end."""

        def stop() -> object:
            if message is None:
                ref.signal(Stop())
            else:
                ref.tell(message)
            return ref.actor_stopped

        return self.add_task(phase, name, stop, timeout=timeout)

    def run(self, reason: str = ShutdownReason.UNKNOWN) -> SystemTermination:
        """Start the shutdown, or join it. Returns the termination of the system, which follows the last phase."""
        with self._lock:
            if self._to_come is not None or self._system.terminated.done():
                return self._system.terminated
            self._to_come = list(_PHASES)
            self.reason = reason
        logger.debug("actor system %s shuts down: %s", self._system.name, reason)
        with outside_turn():
            self._next_phase()
        return self._system.terminated

    def pending(self) -> list[str]:
        """Return the tasks for which the shutdown waits, with their phases."""
        with self._lock:
            return [str(task) for task in self._pending]

    @property
    def exit_timeout_ms(self) -> int:
        """The longest wait in ms at the interpreter's exit: the slowest task of each phase, then the actors."""
        with self._lock:
            phases = _PHASES if self._to_come is None else self._to_come
            slowest = [max((task.timeout_ms for task in self._tasks.get(name, ())), default=0) for name in phases]
        return sum(slowest) + _ACTORS_AT_EXIT_MS

    def run_at_exit(self) -> None:
        """Run the shutdown at the exit of the interpreter, if the system lives until then.

        All threads of the kernel are daemons, so that no forgotten system keeps a program alive, unlike in plain Pykka.
        The threads are still running while the functions of `atexit` run, which shut the systems down in order.
        """
        _living[self._system] = os.getpid()
        # Registered again, so that it runs before everything registered earlier, such as the end of the recording.
        atexit.unregister(_shut_down)
        atexit.register(_shut_down)

    def forget_exit(self) -> None:
        """Cancel the shutdown at the exit, because the system has ended."""
        _living.pop(self._system, None)

    def _next_phase(self) -> None:
        with self._lock:
            assert self._to_come is not None
            tasks: list[_ShutdownTask] = []
            while self._to_come and not tasks:
                tasks = self._tasks.pop(self._to_come.pop(0), [])
            self._pending = dict.fromkeys(tasks)
        if not tasks:
            self._system.user.ref.signal(Stop())
        for task in tasks:
            task.start(self._system)

    def ended(self, task: _ShutdownTask) -> None:
        """Continue after a task has ended, in time or not. Called once per task."""
        with self._lock:
            self._pending.pop(task, None)
            if self._pending:
                return
        self._next_phase()


class _ShutdownTask:
    """A task of a shutdown. The first of its end and its deadline counts."""

    def __init__(self, shutdown: CoordinatedShutdown, phase: str, name: str, task: Task, timeout_ms: int) -> None:
        self._shutdown = shutdown
        self._phase = phase
        self._name = name
        self._task = task
        self._ended = threading.Lock()
        self._alarm: Alarm | None = None
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"shutdown task {self._name!r} of phase {self._phase!r}"

    def start(self, system: ActorSystem) -> None:
        try:
            self._alarm = system.clock.schedule(system.clock.now_ms() + self.timeout_ms, self._expire)
            system.dispatcher.run_blocking(self)
        except RuntimeError:
            # Late in its exit the interpreter can no longer start threads.
            logger.exception("%s could not start; the shutdown continues", self)
            self._end()

    def run(self) -> None:
        try:
            result = self._task()
        except BaseException:
            logger.exception("%s failed; the shutdown continues", self)
            self._end()
            return
        if isinstance(result, Future):
            result.add_done_callback(lambda: self._on_future(result))
        else:
            self._end()

    def _on_future(self, future: Future[object]) -> None:
        try:
            future.get(timeout=0)
        except BaseException:
            logger.exception("%s failed; the shutdown continues", self)
        self._end()

    def _expire(self) -> None:
        if self._ended.acquire(blocking=False):
            logger.error("%s has not ended within %s; the shutdown continues", self, format_ms(self.timeout_ms))
            self._shutdown.ended(self)

    def _end(self) -> None:
        if self._ended.acquire(blocking=False):
            if self._alarm is not None:
                self._alarm.cancel()
            self._shutdown.ended(self)


def _shut_down() -> None:
    systems = [system for system, process in list(_living.items()) if process == os.getpid()]
    patience_ms = max((system.coordinated_shutdown.exit_timeout_ms for system in systems), default=0)
    deadline = time.monotonic() + patience_ms / 1000
    for system in systems:
        system.coordinated_shutdown.run(ShutdownReason.INTERPRETER_EXIT)
    for system in systems:
        if not system.terminated.done() and not system.terminated.ended_within(deadline - time.monotonic()):
            logger.error(
                "the interpreter exits before actor system %s has ended; it waits for: %s",
                system.name,
                ", ".join(system.coordinated_shutdown.pending() or system.cells.living_paths()),
            )
