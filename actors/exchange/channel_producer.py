"""The producer of one channel, as its consumer reaches it: where it runs, and what it is told.

Everything goes to the TaskManager of the producer. While that is not known (Flink's UnknownInputChannel) nothing is
asked for, and events for the producer are kept until it is. Here all tasks are deployed when all have their slots, so
that a descriptor names every producer.
"""

from __future__ import annotations

from flykka.actors.exchange.effects import RequestPartition, TellProducer
from flykka.messages.exchange import AddCredit, CancelPartitionRequest, TaskEvent, TaskEventMessage
from flykka.messages.ref import Ref
from flykka.messages.task import InputChannelDescriptor


class ChannelProducer:
    """Makes what the producer of `channel` is told."""

    __slots__ = ("_channel", "_kept", "partition_id", "subpartition", "task_manager")

    def __init__(self, channel: int, descriptor: InputChannelDescriptor) -> None:
        self.partition_id = descriptor.partition_id
        self.subpartition = descriptor.subpartition
        self.task_manager: Ref | None = descriptor.task_manager
        self._channel = channel
        self._kept: list[TaskEvent] = []

    def locate(self, task_manager: Ref) -> None:
        """The producer runs there."""
        assert self.task_manager is None, f"the producer of {self.partition_id} is known already"
        self.task_manager = task_manager

    def request(self, credit: int) -> RequestPartition:
        """Ask for the subpartition; `credit` batches may come at once."""
        return RequestPartition(
            channel=self._channel,
            task_manager=self._known(),
            partition_id=self.partition_id,
            subpartition=self.subpartition,
            credit=credit,
        )

    def add_credit(self, credit: int) -> TellProducer:
        """There is room for `credit` more."""
        return self._tell(
            AddCredit(partition_id=self.partition_id, subpartition=self.subpartition, credit=credit),
        )

    def cancel(self) -> TellProducer:
        """Nobody reads on."""
        return self._tell(CancelPartitionRequest(partition_id=self.partition_id, subpartition=self.subpartition))

    def send_event(self, event: TaskEvent) -> list[TellProducer]:
        """An event for the producer, now or when it is known."""
        self._kept.append(event)
        return [] if self.task_manager is None else self.send_kept()

    def send_kept(self) -> list[TellProducer]:
        """The events that have waited until the producer was known, each once."""
        kept, self._kept = self._kept, []
        return [
            self._tell(TaskEventMessage(partition_id=self.partition_id, subpartition=self.subpartition, event=event))
            for event in kept
        ]

    def _tell(self, message: AddCredit | CancelPartitionRequest | TaskEventMessage) -> TellProducer:
        return TellProducer(channel=self._channel, task_manager=self._known(), message=message)

    def _known(self) -> Ref:
        assert self.task_manager is not None, f"nobody knows where {self.partition_id} is produced"
        return self.task_manager
