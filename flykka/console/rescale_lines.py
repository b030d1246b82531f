"""Lines of rescales: told when they have ended, and only where they have changed something or were asked for."""

from __future__ import annotations

from flykka.messages.control.rescaling import Rescale, RescaleTerminalState, RescaleTrigger, VertexRescale


def rescale_text(rescale: Rescale) -> str | None:
    """The line of a rescale; None where there is nothing to be told, or not yet."""
    match rescale.terminal_state:
        case RescaleTerminalState.COMPLETED:
            changes = [told for vertex in rescale.vertices if (told := _change(vertex))]
            return f"rescaled: {', '.join(changes)}" if changes else None
        case RescaleTerminalState.FAILED:
            return f"not rescaled: {rescale.comment or rescale.reason}"
        case RescaleTerminalState.IGNORED if rescale.trigger is RescaleTrigger.UPDATE_REQUIREMENT:
            return f"not rescaled: {rescale.comment or rescale.reason}"
        case _:
            return None


def _change(vertex: VertexRescale) -> str | None:
    before, after = vertex.pre_parallelism, vertex.post_parallelism
    if before is None:
        # A job that begins as it was meant to is no news.
        return None if after == vertex.desired_parallelism else f"{vertex.name} {after} of {vertex.desired_parallelism}"
    return None if before == after else f"{vertex.name} {before} -> {after}"
