"""Options for the network buffers of TaskManagers."""

from __future__ import annotations

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.api.streams.program import at_least_one, not_negative
from flykka.errors import ProgramError


def network_settings(
    network_buffers: int | None, network_memory_bytes: int | None, buffers_per_channel: int, floating_per_gate: int
) -> NetworkSettings:
    """The settings that these numbers mean. Raises `ProgramError` where one is out of bounds."""
    if network_memory_bytes is not None and network_buffers is None:
        raise ProgramError("network_memory_bytes is shared out among the network buffers: give network_buffers as well")
    return NetworkSettings(
        network_buffers=None if network_buffers is None else at_least_one(network_buffers, "number of network buffers"),
        network_memory_bytes=(
            None if network_memory_bytes is None else at_least_one(network_memory_bytes, "number of network bytes")
        ),
        buffers_per_channel=at_least_one(buffers_per_channel, "number of buffers per channel"),
        floating_buffers_per_gate=not_negative(floating_per_gate, "number of floating buffers per gate"),
    )
