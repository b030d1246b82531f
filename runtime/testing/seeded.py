"""An actor system on the test's own thread, in virtual time, in an order drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.inspection.nondeterminism import Nondeterminism, refuse, watched
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.manual_clock import ManualClock

if TYPE_CHECKING:
    from flykka.runtime.recording import Recorder


class StrictDispatcher(SeededDispatcher):
    """A seeded dispatcher whose `step` raises `NondeterminismError` after a turn that cannot be reproduced."""

    def step(self) -> bool:
        nondeterminisms: list[Nondeterminism] = []

        def report(each: Nondeterminism) -> None:
            nondeterminisms.append(each)
            refuse(each)

        with watched(report):
            has_run = super().step()
        for each in nondeterminisms:
            # The actor's supervisor handles the failure. The test gets it too.
            refuse(each)
        return has_run


class SeededSystem(ActorSystem):
    """A system whose turns run only within `run_until_idle`, `advance`, or while the test waits for a future.

    With `strict`, a turn that no seed can reproduce (it reads the real clock, uses the module `random`, sleeps, opens a
    file, starts a thread) fails with `NondeterminismError`, and so does the call that ran it. Turns then take several
    times as long.

    Blocking work takes a random virtual time of up to `blocking_ms`, as on slow disks and services. The default is 0.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        name: str = "seeded",
        start_ms: int = 0,
        serialize_messages: bool = True,
        recorder: Recorder | None = None,
        default_ask_timeout: float = 10.0,
        strict: bool = False,
        blocking_ms: int = 0,
    ) -> None:
        self.manual_clock = ManualClock(start_ms)
        self.schedule = (StrictDispatcher if strict else SeededDispatcher)(seed, self.manual_clock, blocking_ms)
        super().__init__(
            name,
            seed=seed,
            dispatcher=self.schedule,
            serialize_messages=serialize_messages,
            recorder=recorder,
            default_ask_timeout=default_ask_timeout,
        )

    def run_until_idle(self, max_steps: int = 1_000_000) -> int:
        """Run until no item is ready at the current time. Returns the number of steps."""
        return self.schedule.run_until_idle(max_steps)

    def advance(self, ms: int) -> None:
        """Advance virtual time by `ms`, running all turns that become ready."""
        self.schedule.advance(ms)
