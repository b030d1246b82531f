"""Who hears what consumers tell the producer of a partition, against the way of the data.

Partitions are registered while somebody produces them; what comes for another one is nobody's. Follows Flink's
TaskEventDispatcher, one per TaskManager. Credits and cancellations go this way; of Flink's task events there is
ResumeConsumption, which only a partition that blocks behind barriers waits for.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from flykka.messages.ids import ResultPartitionId

Listener = TypeVar("Listener")
Kind = TypeVar("Kind")


class TaskEventDispatcher(Generic[Listener, Kind]):
    """Listeners by partition and by the kind of what they want to hear."""

    def __init__(self) -> None:
        self._listeners: dict[ResultPartitionId, dict[Kind, list[Listener]]] = {}

    def register_partition(self, partition_id: ResultPartitionId) -> None:
        """Somebody produces the partition from now on."""
        assert partition_id not in self._listeners, f"{partition_id} is registered already"
        self._listeners[partition_id] = {}

    def unregister_partition(self, partition_id: ResultPartitionId) -> None:
        """Nobody produces the partition any more."""
        self._listeners.pop(partition_id, None)

    def subscribe(self, partition_id: ResultPartitionId, listener: Listener, kind: Kind) -> None:
        """Have `listener` hear everything of this kind for a partition that is registered."""
        assert partition_id in self._listeners, f"{partition_id} is not registered"
        self._listeners[partition_id].setdefault(kind, []).append(listener)

    def publish(self, partition_id: ResultPartitionId, kind: Kind) -> tuple[Listener, ...] | None:
        """Who is to hear something of this kind; None where the partition is not registered."""
        listeners = self._listeners.get(partition_id)
        return None if listeners is None else tuple(listeners.get(kind, ()))

    def clear_all(self) -> None:
        """Forget every partition."""
        self._listeners.clear()
