"""Messages of simulated bridges to themselves, where Spark would have worked; and the scenario of a run."""

from __future__ import annotations

from flykka.messages.message import Message, message


@message("simulation.stage_over")
class StageOver(Message):
    """bridge's timer -> itself: the oldest stage in flight is over."""


@message("simulation.work_over")
class WorkOver(Message):
    """bridge's timer -> itself: the oldest work in the background is over."""


@message("simulation.begun")
class SimulationBegun(Message):
    """simulation -> its client: this scenario, as JSON, is what happens from here on; for who reads the trace."""

    scenario: str
