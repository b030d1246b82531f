"""Messages of a fork's bridge to itself, which replace Spark's work, and the program of a simulated run."""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("simulation.stage_over")
class StageOver(Message):
    """bridge's timer -> itself: the oldest stage in flight has ended."""


@message("simulation.begun")
class SimulationBegun(Message):
    """simulation -> its client: the simulation starts with this scenario, as JSON. For readers of the trace."""

    scenario: str
