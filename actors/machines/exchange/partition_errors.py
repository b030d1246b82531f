"""Answers to a consumer whose subpartition cannot be read."""

from __future__ import annotations

from flykka.messages.tasks.exchange import ErrorResponse
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId


def partition_error(partition_id: ResultPartitionId, subpartition: int, type_name: str, text: str) -> ErrorResponse:
    """It cannot be had, and asking again does not help."""
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    cause = SerializedThrowable(type_name=type_name, message=message)
    return ErrorResponse(partition_id=partition_id, subpartition=subpartition, cause=cause)


def partition_not_found(partition_id: ResultPartitionId, subpartition: int, text: str) -> ErrorResponse:
    """It is not there (Flink's PartitionNotFoundException): not yet, or no more."""
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    return ErrorResponse(
        partition_id=partition_id,
        subpartition=subpartition,
        cause=SerializedThrowable(type_name="PartitionNotFoundError", message=message, lost_partition=partition_id),
        partition_not_found=True,
    )
