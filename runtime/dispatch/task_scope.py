"""The tasks that an actor's coroutines have started. They belong to the turn that started them, and end with the actor.

A task belongs to the turn that created it, and so do the tasks that it creates: a context variable holds that turn.
While the turn lasts, each step of these tasks is part of it, so sender, time and effects are those of the turn. After
the turn the tasks belong to no actor, and their messages have no sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.runtime.cell.async_cell import AsyncTurn

TURN: ContextVar[AsyncTurn | None] = ContextVar("flykka.turn", default=None)
"""The turn in which the running task was created."""


class TaskScope:
    """The unfinished tasks of an actor's instance. A resource of its cell, closed with the instance."""

    __slots__ = ("_loop", "_tasks", "closed")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    def add(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.closed:
            # A kill on another thread has closed the scope.
            self.close()

    def close(self) -> None:
        self.closed = True
        if not self._tasks:
            return
        try:
            self._loop.call_soon_threadsafe(self._cancel_all)
        except RuntimeError:
            # A closed loop has cancelled its tasks.
            if not self._loop.is_closed():
                raise

    def _cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class Steps(Coroutine[Any, Any, Any]):
    """A coroutine each of whose steps is part of the turn that started the coroutine, while that turn lasts."""

    __slots__ = ("_coroutine", "_turn")

    def __init__(self, turn: AsyncTurn, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._turn = turn
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        outer = self._turn.enter()
        try:
            return self._coroutine.send(value)
        finally:
            self._turn.leave(outer)

    def throw(self, *error: Any) -> Any:
        outer = self._turn.enter()
        try:
            return self._coroutine.throw(*error)
        finally:
            self._turn.leave(outer)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __repr__(self) -> str:
        return repr(self._coroutine)


def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Create a task. This is the task factory of the loops on which actors run."""
    context = options.get("context")
    turn = TURN.get() if context is None else context.get(TURN)
    steps = coroutine if turn is None or turn.over else Steps(turn, coroutine)
    task = asyncio.Task(steps, loop=loop, **options)
    cell = RUNNING.cell if turn is None else turn.cell
    if cell is not None:
        cell.begin_task(task)
    return task
