"""Tests that actors interact only by messages, in the trace of a run with a kill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import StreamExecutionEnvironment
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import CommitCheckpoint, ProcessBatch
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.checkpoint_coordination import CoordinatedTasks
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.tasks.exchange import AddCredit, BatchRef, BufferResponse, PartitionRequest
from flykka.messages.wire.message import Value
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Turn
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

VICTIM = "/user/task-manager-1"


@pytest.fixture(scope="module")
def trace(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, sales_files: Path) -> TraceReader:
    """A recorded run of the program in which the first TaskManager is killed while it publishes."""
    folder = tmp_path_factory.mktemp("recorded")
    record = folder / "run.trace"
    with StreamExecutionEnvironment.get_execution_environment(
        task_managers=2, slots_per_task_manager=2, record=str(record)
    ) as env:
        kill = kill_when(env.cluster.system, VICTIM, lambda _, said: isinstance(said, CommitCheckpoint))
        sales.start_hourly_sales(env, sales_files, folder / "output").wait(timeout=120)
        assert kill.done
    return TraceReader.open(record)


def messages_of_turn(turn: Turn) -> Iterator[Value]:
    for effect in turn.effects:
        if isinstance(effect, Send) and isinstance(effect.message, Value):
            yield effect.message


def test_the_trace_is_complete(trace: TraceReader) -> None:
    assert trace.truncated is None
    assert trace.turns


def test_every_batch_uses_a_credit_of_its_subpartition(trace: TraceReader) -> None:
    credit: dict[tuple[str, int], int] = defaultdict(int)
    crossed = 0

    for turn in trace.turns:
        match turn.message:
            case PartitionRequest() | AddCredit() if not turn.recipient.path.endswith(turn_manager(turn)):
                credit[turn.message.partition_id, turn.message.subpartition] += turn.message.credit
            case _:
                pass
        for message in messages_of_turn(turn):
            if isinstance(message, BufferResponse) and isinstance(message.buffer, BatchRef):
                credit[message.partition_id, message.subpartition] -= 1
                crossed += 1
                assert credit[message.partition_id, message.subpartition] >= 0, f"turn {turn.sequence}: {message}"

    assert crossed > sales.FILES


def turn_manager(turn: Turn) -> str:
    """Return the name of the TaskManager below which the turn ran; TaskManagers themselves only forward requests."""
    return turn.recipient.path.split("/")[2]


def test_every_batch_reaches_a_stage_through_a_subpartition(trace: TraceReader) -> None:
    delivered: dict[str, set[str]] = defaultdict(set)
    made: set[str] = set()
    offered: set[str] = set()

    for turn in trace.turns:
        match turn.message:
            case BufferResponse(buffer=BatchRef(batch_id=batch_id)):
                delivered[turn.recipient.path].add(batch_id)
            case StageResult(outputs=outputs):
                made.update(output.batch.batch_id for output in outputs)
            case _:
                pass
        for message in messages_of_turn(turn):
            match message:
                case ProcessBatch(batch=batch):
                    assert batch.batch_id in delivered[turn.recipient.path]
                case BufferResponse(buffer=BatchRef(batch_id=batch_id)):
                    offered.add(batch_id)
                case _:
                    pass

    assert offered
    assert offered <= made


def test_every_completed_checkpoint_has_every_acknowledgement(trace: TraceReader) -> None:
    taking_part: frozenset[str] = frozenset()
    acknowledged: dict[int, set[str]] = defaultdict(set)
    completed: list[int] = []

    for turn in trace.turns:
        if not turn.recipient.path.endswith("/checkpoint-coordinator"):
            continue
        match turn.message:
            case CoordinatedTasks(tasks=tasks):
                taking_part = frozenset(task.attempt for task in tasks)
            case AcknowledgeCheckpoint(checkpoint_id=checkpoint_id, attempt=attempt):
                acknowledged[checkpoint_id].add(attempt)
            case _:
                pass
        for message in messages_of_turn(turn):
            if isinstance(message, CheckpointCompleted):
                assert acknowledged[message.checkpoint_id] >= taking_part
                completed.append(message.checkpoint_id)

    assert completed == sorted(set(completed))
    assert len(completed) >= 2


def test_the_actors_of_a_killed_task_manager_take_no_further_turn(trace: TraceReader) -> None:
    ended = {killed.ref: killed.sequence for killed in trace.killed}

    later = [turn for turn in trace.turns if turn.sequence > ended.get(turn.recipient, turn.sequence)]

    assert any(ref.path == VICTIM for ref in ended)
    assert any(ref.path.startswith(f"{VICTIM}/") for ref in ended)
    assert later == []
