"""Tests batch jobs on Spark: output equal to the stream's, kills of producers and readers, and no leaks in Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import StreamExecutionEnvironment
from flykka.messages.attempt.commands import CommitCheckpoint, ProcessBatch, SnapshotState
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.tasks.exchange import BufferResponse
from flykka.messages.tasks.task import ExecutionState, KeepPartitions
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import PlannedKill, kill_when
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment before the `count`-th message of a kind is handled by a TaskManager or an actor below it."""

    name: str
    kind: type[Message]
    count: int = 1


READER_DIES = (
    Moment(name="while it reads", kind=ProcessBatch, count=3),
    Moment(name="at the final checkpoint", kind=SnapshotState),
    Moment(name="before it publishes", kind=CommitCheckpoint),
)
KEEPER_DIES = (
    Moment(name="before it retains a batch", kind=KeepPartitions),
    Moment(name="while results are read", kind=BufferResponse, count=3),
    Moment(name="before all output is published", kind=CommitCheckpoint, count=2),
)


def long(value: object) -> object:
    return pytest.param(value, marks=pytest.mark.long)


@pytest.fixture
def left(spark: SparkSession) -> Callable[[], frozenset[int]]:
    """Return the RDDs with blocks in Spark, except those from before the test."""
    before = persisted(spark)
    return lambda: persisted(spark) - before


def persisted(spark: SparkSession) -> frozenset[int]:
    return frozenset(spark.sparkContext._jsc.getPersistentRDDs())


def lose_blocks(spark: SparkSession, rdd_ids: frozenset[int]) -> None:
    """Drop blocks, as if the executors that hold them were killed."""
    held = spark.sparkContext._jsc.getPersistentRDDs()
    for rdd_id in rdd_ids:
        held[rdd_id].unpersist(True)


def run_sales_in_batch_mode(env: StreamExecutionEnvironment, files: Path, output: Path) -> list[ExecutionStateChanged]:
    """Run the program of the kill tests as a batch, and return the state changes of its attempts in order."""
    changes: list[ExecutionStateChanged] = []

    def hear(message: Message) -> None:
        if isinstance(message, ExecutionStateChanged):
            changes.append(message)

    env.set_runtime_mode("BATCH")
    client = sales.start_hourly_sales(env, files, output)
    client.add_listener(hear)
    client.wait(timeout=300)
    return changes


def is_source(name: str) -> bool:
    return name.startswith("Source")


def attempt_numbers(changes: list[ExecutionStateChanged], *, of_source: bool) -> set[str]:
    deployed = (each for each in changes if each.state is ExecutionState.DEPLOYING)
    return {each.attempt.rsplit("_", 1)[1] for each in deployed if is_source(each.task_name) is of_source}


def kill_reader_at(env: StreamExecutionEnvironment, moment: Moment) -> PlannedKill:
    """Kill the task, but not its TaskManager, right before its bridge handles the message that `moment` selects."""
    tasks: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = isinstance(message, moment.kind) and recipient.path.endswith("/bridge")
        if is_moment:
            tasks.append(recipient.path.removesuffix("/bridge"))
        return is_moment

    return kill_when(env.cluster.system, lambda: env.cluster.system.find(tasks[-1]), matches, moment.count)


def kill_keeper_at(env: StreamExecutionEnvironment, moment: Moment) -> PlannedKill:
    """Kill the TaskManager that handles the moment's message, itself or in an actor below it."""
    task_managers: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = isinstance(message, moment.kind) and recipient.path.startswith("/user/task-manager-")
        if is_moment:
            task_managers.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    return kill_when(env.cluster.system, lambda: env.cluster.system.find(task_managers[-1]), matches, moment.count)


@contextmanager
def busy_machine() -> Iterator[None]:
    spawning = get_context("spawn")
    processes = [spawning.Process(target=_spin, daemon=True) for _ in range(2)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


def test_output_equals_the_streams_and_readers_start_after_complete_inputs(
    spark: SparkSession, environment: Environment, few_files: Path, tmp_path: Path, left: Callable[[], frozenset[int]]
) -> None:
    env = environment()

    changes = run_sales_in_batch_mode(env, few_files, tmp_path / "output")

    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), sales.hourly_batch(spark, few_files))
    states = [(each.state, is_source(each.task_name)) for each in changes]
    assert states.index((ExecutionState.FINISHED, True)) < states.index((ExecutionState.DEPLOYING, False))
    env.close()
    assert not left()


# Tests of complete clusters without Spark also cover readers.
@pytest.mark.long
@pytest.mark.parametrize("moment", READER_DIES, ids=lambda moment: moment.name)
def test_a_killed_reader_restarts_and_finished_ones_do_not(
    spark: SparkSession,
    environment: Environment,
    few_files: Path,
    tmp_path: Path,
    left: Callable[[], frozenset[int]],
    moment: Moment,
) -> None:
    env = environment()
    kill = kill_reader_at(env, moment)

    changes = run_sales_in_batch_mode(env, few_files, tmp_path / "output")

    assert kill.done
    assert attempt_numbers(changes, of_source=True) == {"0"}
    assert attempt_numbers(changes, of_source=False) == {"0", "1"}
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), sales.hourly_batch(spark, few_files))
    env.close()
    assert not left()


# The recomputation of a result with lost blocks is also tested below.
@pytest.mark.long
@pytest.mark.parametrize("machine", [nullcontext, busy_machine], ids=["idle", "busy"])
@pytest.mark.parametrize("moment", KEEPER_DIES, ids=lambda moment: moment.name)
def test_a_lost_retained_result_is_recomputed_and_no_blocks_remain(
    spark: SparkSession,
    environment: Environment,
    few_files: Path,
    tmp_path: Path,
    left: Callable[[], frozenset[int]],
    moment: Moment,
    machine: Callable[[], AbstractContextManager[None]],
) -> None:
    env = environment()
    kill = kill_keeper_at(env, moment)

    with machine():
        run_sales_in_batch_mode(env, few_files, tmp_path / "output")
        env.close()
        remains = left()

    assert kill.done
    assert not remains
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), sales.hourly_batch(spark, few_files))


def test_a_result_whose_blocks_are_lost_is_recomputed(
    spark: SparkSession, environment: Environment, few_files: Path, tmp_path: Path, left: Callable[[], frozenset[int]]
) -> None:
    env = environment()
    lost = threading.Event()

    def lose(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        if isinstance(message, ProcessBatch) and not lost.is_set():
            # The first batch that the reader reads is lost, because all current batches are retained for readers.
            lost.set()
            lose_blocks(spark, left())

    env.cluster.system.add_delivery_hook(lose)

    changes = run_sales_in_batch_mode(env, few_files, tmp_path / "output")

    assert lost.is_set()
    assert attempt_numbers(changes, of_source=True) == {"0", "1"}
    assert attempt_numbers(changes, of_source=False) == {"0", "1"}
    causes = [each.failure for each in changes if each.failure is not None]
    assert {cause.type_name for cause in causes} == {"LostBatchError"}
    assert all(cause.lost_partition is not None for cause in causes)
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), sales.hourly_batch(spark, few_files))
    env.close()
    assert not left()


@pytest.mark.parametrize("machine", [nullcontext, long(busy_machine)], ids=["idle", "busy"])
def test_a_job_cancelled_while_results_are_read_leaves_no_blocks(
    environment: Environment,
    few_files: Path,
    tmp_path: Path,
    left: Callable[[], frozenset[int]],
    machine: Callable[[], AbstractContextManager[None]],
) -> None:
    env = environment().set_runtime_mode("BATCH")
    seen = kill_keeper_at(env, KEEPER_DIES[1])

    with machine():
        client = sales.start_hourly_sales(env, few_files, tmp_path / "output")
        assert seen.wait(timeout=120)
        client.cancel()
        env.close()
        remains = left()

    assert not remains
