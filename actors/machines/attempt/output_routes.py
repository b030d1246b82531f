"""Routes of an attempt's batches: their ids, the subpartitions that get them, and their first holders."""

from __future__ import annotations

from collections.abc import Callable

from flykka.actors.machines.attempt.batches import IN_TRANSIT, KEPT, Address
from flykka.actors.machines.exchange.channel_selectors import ChannelSelector, channel_selector
from flykka.messages.graph.job_graph import ResultPartitionType, ShipStrategy
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId

Draw = Callable[[int], int]
"""Draws a number from 0 to below its argument."""


class OutputRoutes:
    """The outputs of one attempt. `seeded` makes a source of chance of a seed, for outputs that are shuffled."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, seeded: Callable[[str], Draw]) -> None:
        self._attempt = descriptor.attempt
        self._selectors: dict[int, ChannelSelector] = {
            output.output: channel_selector(
                output.ship_strategy,
                output.subpartitions,
                first=descriptor.subtask,
                draw=seeded(output.partition_id),
            )
            for output in descriptor.outputs
            if not is_split(output)
        }

    def receivers(self, output: ResultPartitionDescriptor) -> range:
        """The subpartitions that the next batch of an output goes to, as a whole."""
        return self._selectors[output.output].select_channels()

    def batch_id(self, stage: int, output: ResultPartitionDescriptor, subpartition: int) -> BatchId:
        """The id of the batch that a stage makes for a subpartition."""
        return BatchId(f"{self._attempt}/{stage}/{output.output}.{subpartition}")


def is_split(output: ResultPartitionDescriptor) -> bool:
    """True if the rows of each batch are split among the subpartitions, by key group."""
    return output.ship_strategy is ShipStrategy.HASH and output.subpartitions > 1


def is_read_once(output: ResultPartitionDescriptor) -> bool:
    """True if one stage reads each batch as it is, and no other ever does: state may be made of what is keyed."""
    goes_to_one = output.ship_strategy is not ShipStrategy.BROADCAST or output.subpartitions == 1
    is_keyed = output.ship_strategy is ShipStrategy.HASH
    return goes_to_one and not is_keyed and output.partition_type is not ResultPartitionType.BLOCKING


def first_holder(output: ResultPartitionDescriptor) -> str:
    """The holder of a batch of this output before it is read."""
    return KEPT if output.partition_type is ResultPartitionType.BLOCKING else IN_TRANSIT


def address(output: ResultPartitionDescriptor, subpartition: int) -> Address:
    """The place where a batch of this output is read."""
    return Address(partition=output.partition_id, subpartition=subpartition)


def input_addresses(descriptor: TaskDeploymentDescriptor) -> frozenset[Address]:
    """Return the places whose batches are released when an attempt ends that reads them.

    An approximate partition is not among them: its producer goes on with the next reader, and releases lost batches.
    """
    return frozenset(
        Address(partition=channel.partition_id, subpartition=channel.subpartition)
        for gate in descriptor.inputs
        if gate.consumed_partition_type is not ResultPartitionType.PIPELINED_APPROXIMATE
        for channel in gate.channels
    )
