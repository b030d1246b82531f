"""A whole actor system on the test's own thread, in virtual time, in an order drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.manual_clock import ManualClock
from flykka.runtime.testing.nondeterminism import Nondeterminism, refuse, watched

if TYPE_CHECKING:
    from flykka.runtime.recording import Recorder


class StrictDispatcher(SeededDispatcher):
    """Watches what turns do."""

    def step(self) -> bool:
        """Draw and run one. Raises `NondeterminismError` behind a turn that could not be repeated."""
        found: list[Nondeterminism] = []

        def report(each: Nondeterminism) -> None:
            found.append(each)
            refuse(each)

        with watched(report):
            has_run = super().step()
        for each in found:
            # The actor's own failure is its supervisor's to mend; whoever tests it is to hear of this one.
            refuse(each)
        return has_run


class SeededSystem(ActorSystem):
    """Nothing runs but within `run_until_idle`, `advance`, or while something is waited for.

    With `strict`, a turn that does what no seed could repeat fails with `NondeterminismError`, and so does whoever has
    it run: reads the real clock, draws from the module `random`, sleeps, opens a file, begins a thread. Turns take
    several times as long then.

    Blocking work takes up to `blocking_ms` of virtual time, drawn for each piece of it, so that it ends behind what
    slower disks and services would let pass first. Without, it takes none.
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
        """Run until nothing is left to run at this moment; how many steps it took."""
        return self.schedule.run_until_idle(max_steps)

    def advance(self, ms: int) -> None:
        """Let `ms` of virtual time pass, with everything that happens meanwhile."""
        self.schedule.advance(ms)
