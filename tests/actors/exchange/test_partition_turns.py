"""The readers of a partition in turns, the partitions of a task by their ids, and blocking partitions."""

from __future__ import annotations

import pytest

from flykka.actors.exchange.buffer_pool import LocalBufferPool
from flykka.actors.exchange.effects import NotifyPartitionConsumable, PartitionEffect, Refuse, ReleaseBatch, Send
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.exchange.result_partition_manager import ResultPartitionManager
from flykka.actors.exchange.task_event_dispatcher import TaskEventDispatcher
from flykka.actors.ignore import Ignore
from flykka.messages.exchange import (
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    CheckpointBarrier,
    EndOfPartition,
    ErrorResponse,
    PartitionRequest,
    ResumeConsumption,
    TaskEventMessage,
)
from flykka.messages.job_graph import ResultPartitionType
from flykka.messages.ref import Ref
from tests.actors.exchange.builders import CONSUMER, batch, descriptor, partition, partition_id, sent

BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
OTHERS = Ref("/user/task-manager-1/other", 3)
UNKNOWN = partition_id(9)


def order(effects: list[PartitionEffect]) -> list[tuple[int, int]]:
    """Subpartition and sequence number of what is sent."""
    responses = [effect.response for effect in effects if isinstance(effect, Send)]
    return [(r.subpartition, r.sequence_number) for r in responses if isinstance(r, BufferResponse)]


def blocking(*names: str, releases: bool = False) -> ResultPartition:
    output = ResultPartition(
        descriptor(), partition_type=ResultPartitionType.BLOCKING, releases_on_consumption=releases
    )
    for name in names:
        output.add_batch(batch(name))
    return output


def test_readers_take_turns_one_message_each() -> None:
    output = partition(subpartitions=2)
    for name in ("a", "b", "c"):
        output.add_batch(batch(name, subpartition=0))
        output.add_batch(batch(name, subpartition=1))
    output.set_writable(False)

    held = output.request(0, 3, CONSUMER) + output.request(1, 2, CONSUMER)
    effects = output.set_writable(True)

    assert held == []
    assert order(effects) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]


def test_a_reader_that_leaves_leaves_the_line() -> None:
    output = partition(subpartitions=2)
    output.add_batch(batch("a", subpartition=0))
    output.add_batch(batch("a", subpartition=1))
    output.set_writable(False)
    output.request(0, 1, CONSUMER)
    output.request(1, 1, CONSUMER)

    output.cancel(0)

    assert order(output.set_writable(True)) == [(1, 0)]


def test_a_subpartition_that_waits_behind_a_barrier_is_served_when_its_reader_has_aligned() -> None:
    output = ResultPartition(descriptor(), blocks_behind_barriers=True)
    output.request(0, 5, CONSUMER)
    barrier = output.broadcast_event(BARRIER)
    held = output.add_batch(batch("a")) + output.add_credit(0, 1)

    resumed = output.resume_consumption(0)
    output.check()

    assert (sent(barrier), held, sent(resumed)) == ([BARRIER], [], [batch("a")])


def test_a_reader_without_credits_of_its_own_begins_anew_behind_a_barrier_and_hears_of_what_waits() -> None:
    output = ResultPartition(descriptor(), blocks_behind_barriers=True)
    output.request(0, 0, CONSUMER)
    output.add_credit(0, 3)
    output.broadcast_event(BARRIER)
    output.add_batch(batch("a"))

    (told,) = output.resume_consumption(0)

    assert isinstance(told, Send)
    assert told.response == BacklogAnnouncement(partition_id=partition_id(), subpartition=0, backlog=1)


def test_a_barrier_may_overtake_all_batches_of_every_reader_and_names_them() -> None:
    output = partition(subpartitions=2)
    output.request(0, 1, CONSUMER)
    for name in ("sent", "waits"):
        output.add_batch(batch(name, subpartition=0))
    output.add_batch(batch("unread", subpartition=1))

    effects, overtaken = output.broadcast_priority_event(BARRIER)
    output.check()

    assert sent(effects) == [BARRIER]
    assert overtaken == (batch("waits", subpartition=0), batch("unread", subpartition=1))


def test_what_waits_unsent_holds_buffers_and_what_is_sent_or_given_up_gives_them_back() -> None:
    output = ResultPartition(descriptor(2), LocalBufferPool(9))
    for name in ("a", "b"):
        output.add_batch(batch(name, subpartition=0))
        output.add_batch(batch(name, subpartition=1))
    used = [output.pool.used]

    output.request(0, 1, CONSUMER)
    used.append(output.pool.used)
    output.cancel(0)
    used.append(output.pool.used)
    output.release()

    assert used == [4, 3, 2]
    assert output.pool.used == 0


def test_consumers_that_wait_for_the_first_batch_are_told_of_it_once() -> None:
    output = ResultPartition(descriptor(), tells_consumable=True)

    effects = output.broadcast_event(BARRIER) + output.add_batch(batch("a")) + output.add_batch(batch("b"))

    assert effects == [NotifyPartitionConsumable(partition_id=partition_id())]


def test_a_blocking_partition_is_read_when_it_is_written_wholly() -> None:
    output = blocking("a", "b")
    early = output.request(0, 5, CONSUMER)
    output.finish()

    effects = output.request(0, 5, CONSUMER)
    output.check()

    assert isinstance(early[0], Send)
    assert isinstance(early[0].response, ErrorResponse)
    assert early[0].response.partition_not_found
    assert sent(effects) == [batch("a"), batch("b"), EndOfPartition()]


def test_a_blocking_partition_is_read_by_anybody_each_at_its_own_pace() -> None:
    output = blocking("a", "b")
    output.finish()

    first = output.request(0, 1, CONSUMER)
    second = output.request(0, 5, OTHERS)
    rest = output.add_credit(0, 1, CONSUMER)

    assert sent(first) == [batch("a")]
    assert sent(second) == [batch("a"), batch("b"), EndOfPartition()]
    assert sent(rest) == [batch("b"), EndOfPartition()]
    assert not output.is_released


def test_a_blocking_partition_keeps_what_was_read_until_it_is_released() -> None:
    output = blocking("a")
    output.finish()
    output.request(0, 5, CONSUMER)

    assert output.release() == (batch("a"),)


def test_a_blocking_partition_may_be_released_when_its_readers_have_left() -> None:
    output = blocking("a", releases=True)
    output.finish()
    output.request(0, 0, CONSUMER)

    effects = output.cancel(0)

    assert output.is_released
    assert effects == [ReleaseBatch(batch=batch("a"))]


def test_nothing_is_written_behind_the_end_of_a_blocking_partition() -> None:
    output = blocking("a")
    output.finish()

    with pytest.raises(AssertionError, match="behind the end"):
        output.add_batch(batch("b"))


def test_a_partition_is_found_by_its_id_and_another_one_is_not_here() -> None:
    manager = ResultPartitionManager()
    manager.register(partition())

    (found,) = manager.request(PartitionRequest(partition_id=UNKNOWN, subpartition=0, credit=1, consumer=CONSUMER))

    assert isinstance(found, Send)
    assert isinstance(found.response, ErrorResponse)
    assert found.response.partition_not_found
    assert UNKNOWN in found.response.cause.message


@pytest.mark.parametrize(
    "message",
    [
        AddCredit(partition_id=UNKNOWN, subpartition=0, credit=1),
        CancelPartitionRequest(partition_id=UNKNOWN, subpartition=0),
        TaskEventMessage(partition_id=UNKNOWN, subpartition=0, event=ResumeConsumption()),
    ],
)
def test_what_is_said_about_a_partition_of_somebody_else_is_ignored(
    message: AddCredit | CancelPartitionRequest | TaskEventMessage,
) -> None:
    (effect,) = ResultPartitionManager().handle(message)

    assert isinstance(effect, Ignore)


def test_what_is_said_twice_or_too_early_about_a_reader_changes_nothing() -> None:
    output = partition()
    early = output.resume_consumption(0) + output.add_credit(0, 1)
    output.request(0, 1, CONSUMER)
    output.cancel(0)

    late = output.cancel(0) + output.add_credit(0, 1) + output.resume_consumption(0)
    output.check()

    assert all(isinstance(effect, Refuse) for effect in early)
    assert all(isinstance(effect, Ignore) for effect in late)


def test_events_reach_who_has_subscribed_to_their_kind_while_the_partition_is_registered() -> None:
    dispatcher: TaskEventDispatcher[str, str] = TaskEventDispatcher()
    before = dispatcher.publish(UNKNOWN, "resume")
    dispatcher.register_partition(UNKNOWN)
    dispatcher.subscribe(UNKNOWN, "task", "resume")

    heard = [dispatcher.publish(UNKNOWN, kind) for kind in ("resume", "credit")]
    dispatcher.unregister_partition(UNKNOWN)

    assert (before, heard) == (None, [("task",), ()])
    assert dispatcher.publish(UNKNOWN, "resume") is None


def test_nobody_can_subscribe_to_a_partition_that_is_not_registered() -> None:
    dispatcher: TaskEventDispatcher[str, str] = TaskEventDispatcher()

    with pytest.raises(AssertionError, match="not registered"):
        dispatcher.subscribe(UNKNOWN, "task", "resume")
