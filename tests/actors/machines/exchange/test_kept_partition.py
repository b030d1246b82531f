"""A partition that has outlived its task: several readers read it from the beginning, each at its own pace."""

from __future__ import annotations

import pytest

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect
from flykka.actors.machines.exchange.result_partition import KeptPartition, ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import (
    AddCredit,
    CancelPartitionRequest,
    EndOfPartition,
    ErrorResponse,
    PartitionRequest,
)
from flykka.messages.wire.ref import Ref
from tests.actors.machines.exchange.builders import (
    CONSUMER,
    batch_ref,
    buffers_sent,
    partition_descriptor,
    partition_id,
)

OTHER = Ref("/user/task-manager-1/other", 3)


def partition_of_batches(*names: str) -> ResultPartition:
    output = ResultPartition(partition_descriptor(partition_type=ResultPartitionType.BLOCKING))
    for name in names:
        output.add_batch(batch_ref(name))
    return output


def finished_partition(*names: str) -> KeptPartition:
    output = partition_of_batches(*names)
    output.finish()
    return KeptPartition(output.finished())


def request_partition(
    output: KeptPartition, credit: int, consumer: Ref = CONSUMER, subpartition: int = 0
) -> list[PartitionEffect]:
    return output.request(
        PartitionRequest(partition_id=partition_id(), subpartition=subpartition, credit=credit, consumer=consumer)
    )


def more(credit: int) -> AddCredit:
    return AddCredit(partition_id=partition_id(), subpartition=0, credit=credit)


def test_every_consumer_reads_everything_each_at_its_own_pace() -> None:
    output = finished_partition("a", "b")

    first = request_partition(output, 1)
    second = request_partition(output, 5, OTHER)
    rest = output.add_credit(more(1), CONSUMER)
    output.check()

    assert buffers_sent(first) == [batch_ref("a")]
    assert buffers_sent(second) == [batch_ref("a"), batch_ref("b"), EndOfPartition()]
    assert buffers_sent(rest) == [batch_ref("b"), EndOfPartition()]


def test_a_consumer_that_requests_again_reads_from_the_beginning() -> None:
    output = finished_partition("a")
    request_partition(output, 5)

    assert buffers_sent(request_partition(output, 5)) == [batch_ref("a"), EndOfPartition()]


def test_messages_of_a_consumer_without_a_request_are_ignored() -> None:
    output = finished_partition("a")
    request_partition(output, 0)
    leave = CancelPartitionRequest(partition_id=partition_id(), subpartition=0)

    assert output.cancel(leave, CONSUMER) == []
    late = [output.cancel(leave, CONSUMER), output.add_credit(more(1), CONSUMER), output.add_credit(more(1), None)]

    assert all(isinstance(effect, Ignore) for effects in late for effect in effects)


@pytest.mark.parametrize("subpartition", [-1, 1])
def test_an_unknown_subpartition_of_a_retained_partition_is_refused_by_number(subpartition: int) -> None:
    (refused,) = request_partition(finished_partition("a"), 1, subpartition=subpartition)

    assert isinstance(refused, Tell)
    assert isinstance(refused.message, ErrorResponse)
    assert refused.message.cause.type_name == "UnknownSubpartitionError"
    assert str(subpartition) in refused.message.cause.message


def test_a_partition_is_retained_when_it_is_completely_written() -> None:
    with pytest.raises(AssertionError, match="not written completely"):
        partition_of_batches("a").finished()


def test_a_finished_partition_cannot_be_written() -> None:
    output = partition_of_batches("a")
    output.finish()

    with pytest.raises(AssertionError, match="after the end"):
        output.add_batch(batch_ref("b"))


def test_a_blocking_partition_accepts_every_batch() -> None:
    output = partition_of_batches(*map(str, range(100)))

    output.check()

    assert output.is_available
