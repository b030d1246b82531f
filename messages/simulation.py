"""What the bridges of a simulated data plane say to themselves: time has passed, in which Spark would have worked."""

from __future__ import annotations

from flykka.messages.message import Message, message


@message("simulation.stage_over")
class StageOver(Message):
    """bridge's timer -> itself: the oldest stage in flight is over."""


@message("simulation.work_over")
class WorkOver(Message):
    """bridge's timer -> itself: the oldest work in the background is over."""
