"""Time and threads of a replay: there are none, as long as the trace says who runs next, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.errors import AskTimeoutError
from flykka.runtime.futures.future import Future
from flykka.runtime.replay.coroutines import ReplayLoop, complete
from flykka.runtime.time.manual_clock import ManualClock
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flykka.messages.wire.ref import Resolve
    from flykka.runtime.dispatch.dispatcher import Runnable
    from flykka.runtime.dispatch.pipe import Executor, Pipe
    from flykka.runtime.replay.fork.environment import ForkEnvironment
    from flykka.runtime.replay.replayed_turn import TakenTurn
    from flykka.runtime.time.clock import Alarm


class ReplayClock(ManualClock):
    """Time as the trace tells it. No alarm rings: that of a recorded timer is taken by its turn."""

    def set(self, now_ms: int) -> None:
        """Set the time, also to an earlier one: threads read the clock in their own order."""
        self._now_ms = now_ms

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        """Keep an alarm, for a fork that goes on from here in virtual time."""
        alarm = super().schedule(due_ms, callback)
        self.next_due()  # Throws out those that were cancelled.
        return alarm


class ReplayDispatcher(SeededDispatcher):
    """Runs nothing while the trace is replayed. In a fork, it is a seeded dispatcher."""

    def __init__(self, seed: int, clock: ReplayClock, taken: TakenTurn, resolve: Resolve) -> None:
        super().__init__(seed, clock)
        self.fork: ForkEnvironment | None = None
        """Set where it runs by itself."""
        self._taken = taken
        self._resolve = resolve
        self._loop: ReplayLoop = ReplayLoop(self)  # type: ignore[abstract]  # As the base has it.

    @property
    def loop(self) -> ReplayLoop:
        return self._loop

    def execute(self, runnable: Runnable) -> None:
        """Wait for the recorded turn."""
        if self.fork is not None:
            super().execute(runnable)

    def run_blocking(self, work: Runnable) -> None:
        """Do nothing: the outcome is in the trace, as a message."""
        if self.fork is not None:
            self.fork.run_blocking(work)

    def run_blocking_on(self, executor: Executor | None, work: Pipe[Any]) -> None:
        """The threads of others are not there either."""
        self.run_blocking(work)

    def _draw(self, ready: Sequence[Runnable]) -> int:
        chosen = None if self.fork is None else self.fork.choose(ready)
        return super()._draw(ready) if chosen is None else chosen

    def drive(self, done: Callable[[], bool], timeout: float | None) -> None:
        """A turn waits for a future: it goes on at once, with the outcome that was recorded."""
        if self.fork is not None:
            super().drive(done, timeout)
            return
        future, cell, told = getattr(done, "__self__", None), RUNNING.cell, self._taken.told
        if not isinstance(future, Future) or cell is None or told is None:
            return
        outcome = told.outcome(cell.effects or ())
        if outcome is None or (outcome.failure is not None and outcome.failure.type_name == AskTimeoutError.__name__):
            return  # It has waited in vain, and says so itself.
        complete(future, outcome, self._resolve)
