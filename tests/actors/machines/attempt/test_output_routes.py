"""The places that an attempt reads, whose batches are let go of when it ends."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.batches import Address
from flykka.actors.machines.attempt.output_routes import input_addresses
from flykka.messages.graph.job_graph import OperatorKind, ResultPartitionType
from tests.actors.machines.attempt.attempt_machine import descriptor


def test_batches_of_an_approximate_partition_wait_for_the_next_reader() -> None:
    reader = descriptor(OperatorKind.STATELESS, channels=2)
    (gate,) = reader.inputs
    approximate = replace(gate, consumed_partition_type=ResultPartitionType.PIPELINED_APPROXIMATE)

    bounded = input_addresses(reader)
    reconnected = input_addresses(replace(reader, inputs=(approximate,)))

    assert bounded == {
        Address(partition=channel.partition_id, subpartition=channel.subpartition) for channel in gate.channels
    }
    assert reconnected == frozenset()
