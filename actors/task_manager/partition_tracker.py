"""The part of a TaskManager that keeps results of Tasks that have finished. Any consumer may read them repeatedly.

A BLOCKING partition is kept from the end of its Task until the JobMaster has it released, or is gone. What lies in it
is with the data plane, and is freed by that. Follows Flink's NettyShuffleEnvironment and its ResultPartitionManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.kept_partition import KeptPartition
from flykka.messages.tasks.exchange import AddCredit, CancelPartitionRequest, PartitionRequest
from flykka.messages.tasks.task import FinishedPartition, PartitionsReleased
from flykka.messages.wire.ids import JobId, ResultPartitionId
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized


class PartitionTracker:
    """The results that are kept, by job (Flink's TaskExecutorPartitionTracker); used in its turns only."""

    def __init__(self, context: ActorContext, data_plane: DataPlane) -> None:
        self._context = context
        self._data_plane = data_plane
        self._partitions: dict[ResultPartitionId, KeptPartition] = {}
        self._of_job: dict[JobId, dict[ResultPartitionId, None]] = {}

    def __contains__(self, partition_id: ResultPartitionId) -> bool:
        return partition_id in self._partitions

    @property
    def is_empty(self) -> bool:
        return not self._of_job

    def keep(self, job_id: JobId, partitions: Iterable[FinishedPartition]) -> None:
        """A Task of the job has finished, and leaves these."""
        for finished in partitions:
            self._partitions[finished.descriptor.partition_id] = KeptPartition(finished)
            self._of_job.setdefault(job_id, {})[finished.descriptor.partition_id] = None

    def serve(self, request: PartitionRequest) -> None:
        """A consumer asks for a partition that is kept."""
        self._perform(self._partitions[request.partition_id].request(request))

    def on_consumer(self, message: AddCredit | CancelPartitionRequest) -> None:
        """A consumer has room, or leaves; which of those that read the partition it is says the sender."""
        partition = self._partitions.get(message.partition_id)
        if partition is None:
            return  # It was released meanwhile.
        match message:
            case AddCredit():
                self._perform(partition.add_credit(message, self._context.sender))
            case CancelPartitionRequest():
                self._perform(partition.cancel(message, self._context.sender))

    def release(self, job_id: JobId, partition_ids: Iterable[ResultPartitionId]) -> None:
        """Nobody will ask for these any more; also for such as no Task has left here, or has only half made."""
        released = tuple(partition_ids)
        kept = self._of_job.get(job_id, {})
        for partition_id in released:
            self._partitions.pop(partition_id, None)
            kept.pop(partition_id, None)
        if not kept:
            self._of_job.pop(job_id, None)
        if released:
            self._context.pipe_to_self(
                partial(self._data_plane.release_partitions, job_id, released),
                lambda _: PartitionsReleased(partition_ids=released),
                lambda error: PartitionsReleased(partition_ids=released, cause=serialized(error)),
            )

    def release_job(self, job_id: JobId) -> None:
        """The JobMaster of the job is gone, and all that was kept for it goes."""
        self.release(job_id, self._of_job.get(job_id, {}))

    def note(self, released: PartitionsReleased) -> None:
        """The data plane has freed what was released, or could not: then it is freed with the job."""
        if released.cause is not None:
            self._context.publish(released)

    def _perform(self, effects: Iterable[PartitionEffect]) -> None:
        for effect in effects:
            match effect:
                case Tell(to=consumer, message=response):
                    consumer.tell(response)
                case ReleaseBatch():
                    raise AssertionError("a kept partition is written, and stays as it is until it is released")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)
