"""Messages of a fork's bridge to itself, where Spark would have worked, and the program of a simulated run."""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("simulation.stage_over")
class StageOver(Message):
    """bridge's timer -> itself: the oldest stage in flight is over."""


@message("simulation.begun")
class SimulationBegun(Message):
    """simulation -> its client: this scenario, as JSON, is what happens from here on; for who reads the trace."""

    scenario: str
