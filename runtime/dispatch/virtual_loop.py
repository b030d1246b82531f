"""An event loop in virtual time, which runs a step only when its dispatcher selects it.

Prior art is Trio's autojump clock. Tasks, `asyncio.sleep`, `timeout`, `gather`, `Queue`, `Lock` and similar use only
`call_soon` and `call_at`, so they work here and are reproducible with the seed. Waits for external events (sockets,
processes, signals) are refused: no seed could reproduce them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from flykka.runtime.dispatch.dispatcher import Dispatcher, Runnable
from flykka.runtime.dispatch.task_scope import make_task
from flykka.runtime.errors import ForeignAwaitError

if TYPE_CHECKING:
    from flykka.runtime.dispatch.seeded import SeededDispatcher
    from flykka.runtime.time.clock import Alarm

T = TypeVar("T")

logger = logging.getLogger("flykka.runtime")


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop that runs its callbacks in asyncio's order. The dispatcher may run other work in between."""

    def __init__(self, dispatcher: SeededDispatcher) -> None:
        self._dispatcher = dispatcher
        self._clock = dispatcher.clock
        self._ready: deque[asyncio.Handle] = deque()

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def call_soon(  # type: ignore[override]  # Typeshed ties the arguments to the callback.
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._push(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback like `call_soon`, because there is only one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback at the virtual time `when`, in seconds, rounded up to the next millisecond."""
        timer = _Timer(when, callback, args, self, context)
        timer.alarm = self._clock.schedule(math.ceil(round(when * 1000, 3)), lambda: self._push(timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        return make_task(self, coro, **kwargs)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        self._dispatcher.run_blocking(_Blocking(future, func, args))
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("%s", context.get("message"), exc_info=context.get("exception"))

    def run(self) -> None:
        if not self._ready:
            return  # The tasks were cancelled meanwhile.
        handle = self._ready.popleft()
        if self._ready:
            self._dispatcher.execute(self)
        if not handle.cancelled():
            self.run_within(handle._run)

    def run_within(self, call: Callable[[], object]) -> None:
        """Run a call with this as the running loop, even if a task of another loop is running."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            asyncio._leave_task(outer, task)
        asyncio._set_running_loop(self)
        try:
            call()
        except (KeyboardInterrupt, SystemExit):
            # A task raised this and retains it for the awaiting task; in asyncio it would also end the thread.
            logger.exception("a task of the event loop raised")
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio._enter_task(outer, task)

    def cancel_tasks(self) -> None:
        """Cancel every remaining task, and run each task for as long as it needs no time to pass."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                self.run_within(handle._run)

    def _push(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)
        if len(self._ready) == 1:
            self._dispatcher.execute(self)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        assert isinstance(handle, _Timer)
        handle.alarm.cancel()


class _Timer(asyncio.TimerHandle):
    __slots__ = ("alarm",)

    alarm: Alarm


class _Blocking:
    def __init__(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._future = future
        self._func = func
        self._args = args

    def run(self) -> None:
        if self._future.done():
            return
        try:
            result = self._func(*self._args)
        except BaseException as error:  # noqa: BLE001 - the future fails with it.
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


class VirtualLoopDispatcher(Dispatcher):
    """The dispatcher of a cell on a virtual loop. Its turns are drawn among all others, and run on the loop."""

    throughput = 1

    def __init__(self, seeded: SeededDispatcher) -> None:
        self._seeded = seeded

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._seeded.loop

    def execute(self, runnable: Runnable) -> None:
        self._seeded.execute(_OnLoop(self._seeded.loop, runnable))


class _OnLoop:
    def __init__(self, loop: VirtualLoop, runnable: Runnable) -> None:
        self._loop = loop
        self._runnable = runnable

    def run(self) -> None:
        self._loop.run_within(self._runnable.run)


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise ForeignAwaitError(
            f"loop.{name}() uses an external resource, for which virtual time cannot wait: on a seeded dispatcher an"
            " actor may await asks, context.sleep, and asyncio's functions for tasks and timeouts"
        )

    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(VirtualLoop):
        setattr(VirtualLoop, _name, _refused(_name))
