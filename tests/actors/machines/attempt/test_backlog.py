"""The batches that a source task builds from many small waiting splits."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.source import COLD_STAGES, LIMIT_START, ReadLimit, SplitReader
from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.tasks.exchange import Watermark
from flykka.messages.tasks.source import AddSplits, FileBatchSplit
from flykka.messages.tasks.task import MetricsDue
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SOURCE,
    down,
    durable,
    finished,
    metrics,
    source,
    split,
    to_bridge,
    to_job_master,
    trigger,
)

MANY = [f"{number}" for number in range(100)]


def small(name: str) -> FileBatchSplit:
    one = split(name)
    return FileBatchSplit(split_id=one.split_id, rows=0, files=(one,), size_bytes=1_000)


def backlog(*names: str) -> AddSplits:
    return AddSplits(attempt=ATTEMPT, operator_id=SOURCE, splits=tuple(map(small, names)))


def test_waiting_splits_are_read_as_one_batch_with_one_watermark() -> None:
    task = source()

    started = task.feed(backlog("a", "b", "c"))
    ended = task.feed(finished(0, "rows", event_time_max=1_000))

    assert to_bridge(started) == [ReadSplits(stage=0, splits=(small("a"), small("b"), small("c")))]
    assert [sent for sent in down(ended) if isinstance(sent, Watermark)] == [Watermark(timestamp_ms=899)]


def test_data_that_arrived_during_two_stages_is_read_in_one_batch() -> None:
    task = source()
    task.feed(backlog("a"), backlog("b"), backlog("c"), backlog("d", "e"))

    started = to_bridge(task.feed(finished(0)))

    assert started == [ReadSplits(stage=2, splits=(small("c"), small("d"), small("e")))]


def test_a_slow_stage_makes_the_next_batch_smaller() -> None:
    task = source()
    for stage in range(COLD_STAGES):
        task.feed(backlog("cold"), finished(stage))
    forty = (f"forty-{number}" for number in range(40))
    task.feed(backlog(*forty), backlog("b"), backlog(*MANY))

    task.now += 10_000
    started = to_bridge(task.feed(finished(COLD_STAGES)))

    [read] = [message for message in started if isinstance(message, ReadSplits)]
    assert len(read.splits) == LIMIT_START // 2 // ReadLimit().cost(small("c"))


def test_a_barrier_waits_only_for_the_batches_in_progress() -> None:
    task = source()
    started = to_bridge(task.feed(backlog("a"), backlog("b"), backlog(*MANY), trigger(1)))

    effects = task.feed(finished(0), finished(1), finished(2), durable(1))

    assert [message.splits for message in started if isinstance(message, ReadSplits)] == [(small("a"),), (small("b"),)]
    [acknowledged] = [message for message in to_job_master(effects) if isinstance(message, AcknowledgeCheckpoint)]
    assert acknowledged.state is not None
    restored = SplitReader(SOURCE, ahead=4)
    restored.restore(acknowledged.state.operators)
    assert [each for _ in range(2) for each in restored.next()] == [small(name) for name in MANY]


def test_the_number_of_unread_files_is_reported() -> None:
    task = source()
    task.feed(backlog("a"), backlog("b"), backlog("c", "d"))

    reported = metrics(task.feed(MetricsDue()))

    assert reported.files_unread == 2


def test_the_waiting_files_and_the_next_batch_size_are_reported() -> None:
    reader = SplitReader(SOURCE, ahead=4)
    reader.add((replace(small("a"), size_bytes=None),))
    of_user = (reader.files_unread, reader.batch_limit_bytes)

    reader.add((small("b"), small("c")))

    assert of_user == (1, None)
    assert (reader.files_unread, reader.batch_limit_bytes) == (3, LIMIT_START)
