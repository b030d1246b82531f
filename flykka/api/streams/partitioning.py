"""Flink's partitioners: how the rows of a stream reach the subtasks of its readers.

Nothing is written down by these but a note on the stream: the operator that reads it next is fed so. What is said last
holds; `key_by` says it too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from flykka.actors.machines.state.schema_evolution import ddl_name
from flykka.api.streams.connected_streams import BroadcastStream
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.program.functions import only_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flykka.api.streams.changelog import Changelog
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Input
    from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor


def ordered(inputs: Iterable[Input], changelog: Changelog) -> tuple[Input, ...]:
    """Return the inputs of a stream, with the keys whose rows must stay in order where the parallelism changes."""
    keys = changelog.keys
    columns = None if keys is None else tuple(map(ddl_name, keys)) or (only_key(),)
    code = None if columns is None else KeyByCode(columns=columns)
    return tuple(replace(each, changelog_keys=code) for each in inputs)


class Partitioning(ABC):
    """Unless one of these is said, rows are forwarded, or where the parallelism changes rebalanced.

    Rows of a changelog are not rebalanced but hashed by its keys, so that none overtakes another one of its key.
    """

    @abstractmethod
    def _partitioned(self, strategy: ShipStrategy) -> DataStream: ...

    def forward(self) -> DataStream:
        """Hand each batch to the subtask of the same number, which must exist: the parallelisms must be equal."""
        return self._partitioned(ShipStrategy.FORWARD)

    def rebalance(self) -> DataStream:
        """Hand the batches to all subtasks in turn."""
        return self._partitioned(ShipStrategy.REBALANCE)

    def rescale(self) -> DataStream:
        """Hand the batches to some subtasks in turn: each subtask feeds, or is fed by, its even share of the others."""
        return self._partitioned(ShipStrategy.RESCALE)

    def shuffle(self) -> DataStream:
        """Hand each batch to a subtask by lot."""
        return self._partitioned(ShipStrategy.SHUFFLE)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> BroadcastStream: ...

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> DataStream | BroadcastStream:
        """Hand every batch to all subtasks.

        With descriptors it is for `connect(...)`: the function that reads it there keeps these maps of it.

        Raises:
            ProgramError: what is given are no descriptors of maps, or two have one name.
        """
        everywhere = self._partitioned(ShipStrategy.BROADCAST)
        return BroadcastStream(everywhere, broadcast_state_descriptors) if broadcast_state_descriptors else everywhere

    def global_(self) -> DataStream:
        """Hand every batch to the first subtask."""
        return self._partitioned(ShipStrategy.GLOBAL)
