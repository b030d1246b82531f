"""A whole actor system on the test's own thread, in virtual time, in an order drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from flykka.runtime.recording import Recorder


class SeededSystem(ActorSystem):
    """Nothing runs but within `run_until_idle`, `advance`, or while something is waited for."""

    def __init__(
        self,
        seed: int = 0,
        *,
        name: str = "seeded",
        start_ms: int = 0,
        serialize_messages: bool = True,
        recorder: Recorder | None = None,
        default_ask_timeout: float = 10.0,
    ) -> None:
        self.manual_clock = ManualClock(start_ms)
        self.schedule = SeededDispatcher(seed, self.manual_clock)
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
