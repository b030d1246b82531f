"""Tests coordinators and global aggregates on Spark: exactly once after kills of TaskManagers, and after savepoints."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flykka import (
    AggregateFunction,
    CheckpointedFunction,
    CoordinatedFunction,
    DataStream,
    FileSink,
    FileSource,
    FunctionContext,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    JobClient,
    KeyedContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    ProcessFunction,
    Replayer,
    RestartStrategies,
    StreamExecutionEnvironment,
    SubtaskGateway,
    WatermarkStrategy,
)
from flykka.errors import JobExecutionError
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS = 8, 5
END = "_SUCCESS"


class Numbering(OperatorCoordinator):
    """Assigns consecutive numbers to the rows of all subtasks, in the order of their requests."""

    made: ClassVar[list[Numbering]] = []

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.next, self.heard, self.failures = 0, 0, 0
        self.asked: Counter[int] = Counter()
        self.restored: list[Any] = []
        self._gateways: dict[int, SubtaskGateway] = {}
        self._given = context.get_metrics_group().counter("given")
        self.made.append(self)

    def handle_event_from_operator(self, subtask: int, attempt_number: int, event: Any) -> None:
        self.asked[event["id"]] += 1
        self._given.inc()
        gateway = self._gateways.get(subtask)
        if gateway is not None:
            gateway.send_event({"id": event["id"], "number": self.next})
        self.next += 1

    def checkpoint_coordinator(self, checkpoint_id: int) -> Any:
        return {"next": self.next, "asked": list(self.asked.items())}

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        self.restored.append(state)
        state = state or {"next": 0, "asked": []}
        self.next, self.asked = state["next"], Counter(dict(state["asked"]))
        self._gateways.clear()

    def subtask_ready(self, subtask: int, gateway: SubtaskGateway) -> None:
        self._gateways[subtask] = gateway

    def subtask_failed(self, subtask: int, attempt_number: int, reason: str | None) -> None:
        self.failures += 1
        self._gateways.pop(subtask, None)


class AskForNumbers(CoordinatedFunction, CheckpointedFunction):
    """Sends every row to the coordinator, and emits it when its number arrives. Stores how many rows have a number."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._numbered = store.get_list_state(ListStateDescriptor("numbered", "bigint"))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Do nothing, because the state is always current."""

    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        return Numbering(context)

    def handle_operator_event(self, event: Any, ctx: FunctionContext) -> Iterator[dict[str, Any]]:
        self._numbered.add(event["id"])
        yield {"id": event["id"], "number": event["number"]}


class NumberRows(ProcessFunction, AskForNumbers):
    def process_element(self, row: dict[str, Any], ctx: FunctionContext) -> None:
        ctx.send_event_to_coordinator({"id": row["id"]})


class NumberKeyedRows(KeyedProcessFunction, AskForNumbers):
    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        ctx.send_event_to_coordinator({"id": row["id"]})


Define = Callable[[DataStream], DataStream]


def number_keyed_rows(rows: DataStream) -> DataStream:
    return rows.key_by("id").process(NumberKeyedRows(), "id bigint, number bigint").uid("numbers")


def unkeyed(rows: DataStream) -> DataStream:
    return rows.rebalance().process(NumberRows(), "id bigint, number bigint").uid("numbers")


def write_ids(folder: Path, files: range) -> None:
    folder.mkdir(exist_ok=True)
    for file in files:
        hidden = folder / f".{file:02}.parquet"
        pq.write_table(pa.table({"id": list(range(file * ROWS, (file + 1) * ROWS))}), hidden)
        hidden.rename(folder / f"{file:02}.parquet")


def start_numbers(env: StreamExecutionEnvironment, define: Define, folder: Path, output: Path) -> JobClient:
    """Start with one file per batch and a checkpoint every 300 ms."""
    env.enable_checkpointing("300ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(folder)).files_per_batch(1).monitor_continuously("50ms", until=END)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", uid="rows")
    define(rows).sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("numbers")


def finish_numbering(client: JobClient, folder: Path, output: Path) -> Numbering:
    """End the input once some rows have numbers. Rows get no number after the end, or if their request predates a
    restart.
    """
    is_published = threading.Event()

    def look(said: Message) -> None:
        if isinstance(said, CheckpointCompleted) and any(output.glob("*.parquet")):
            is_published.set()

    client.add_listener(look)
    write_ids(folder, range(FILES // 2, FILES))
    assert is_published.wait(timeout=120)
    (folder / END).touch()
    client.wait(timeout=120)
    return Numbering.made[-1]


def assert_numbered_once(spark: SparkSession, coordinator: Numbering, output: Path) -> None:
    """Check that every row requested one number and was emitted at most once; the last numbers arrive too late."""
    assert coordinator.asked == Counter(range(FILES * ROWS))
    assert coordinator.next == FILES * ROWS
    rows = spark.read.parquet(str(output)).collect()
    assert len({row["id"] for row in rows}) == len({row["number"] for row in rows}) == len(rows) > 0


# A savepoint restores the same state in less time.
@pytest.mark.long
@pytest.mark.parametrize("define", [unkeyed, number_keyed_rows])
def test_a_kill_neither_loses_nor_duplicates_events(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    tmp_path: Path,
    define: Define,
) -> None:
    write_ids(tmp_path / "rows", range(FILES // 2))
    env = environment().set_parallelism(2)
    kill = kill_at(env, Moment(name="snapshot", matches=lambda said: isinstance(said, SnapshotWritten), count=3))

    client = start_numbers(env, define, tmp_path / "rows", tmp_path / "output")
    assert kill.wait(timeout=60)
    coordinator = finish_numbering(client, tmp_path / "rows", tmp_path / "output")

    assert coordinator.failures == 2
    assert len(coordinator.restored) == 1
    assert_numbered_once(spark, coordinator, tmp_path / "output")


def test_a_job_restores_its_coordinators_state_from_a_savepoint(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    folder, output = tmp_path / "rows", tmp_path / "output"
    write_ids(folder, range(FILES // 2))
    client = start_numbers(environment().set_parallelism(1), number_keyed_rows, folder, output)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    former = Numbering.made[-1]

    client = start_numbers(
        environment().set_parallelism(1).from_savepoint(savepoint), number_keyed_rows, folder, output
    )
    coordinator = finish_numbering(client, folder, output)

    assert coordinator is not former
    assert coordinator.restored[0]["next"] <= former.next
    assert_numbered_once(spark, coordinator, output)


class FailingCoordinator(OperatorCoordinator):
    def handle_event_from_operator(self, subtask: int, attempt_number: int, event: Any) -> None:
        raise ValueError("no more numbers")


class NumberedByNobody(NumberRows):
    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        return FailingCoordinator()


def test_a_failing_coordinator_fails_the_job_and_names_its_operator(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    write_ids(tmp_path / "rows", range(1))
    env = environment().set_parallelism(1)
    env.set_restart_strategy(RestartStrategies.no_restart())
    rows = env.from_source(FileSource.parquet(str(tmp_path / "rows")), WatermarkStrategy.no_watermarks(), "rows")
    numbered = rows.process(NumberedByNobody(), "id bigint, number bigint").uid("numbers")
    numbered.sink_to(FileSink.parquet(str(tmp_path / "output")))

    with pytest.raises(JobExecutionError) as failed:
        env.execute("numbers")

    assert "the coordinator of operator 'numbers'" in str(failed.value)
    assert "failed in handle_event_from_operator: ValueError: no more numbers" in str(failed.value)


class Largest(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return -1

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator


class ShowLargest(ProcessFunction):
    """Adds every id to the aggregate, and emits it with the largest id known at this time."""

    def process_element(self, row: dict[str, Any], ctx: FunctionContext) -> Iterator[dict[str, Any]]:
        yield {"id": row["id"], "largest": ctx.update_global_aggregate("largest id", row["id"], Largest())}


@pytest.mark.long
def test_a_recorded_run_replays_without_its_coordinators_code(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    write_ids(tmp_path / "rows", range(FILES // 2))
    record = tmp_path / "run.trace"
    env = environment(record=str(record))
    client = start_numbers(env, unkeyed, tmp_path / "rows", tmp_path / "output")
    coordinator = finish_numbering(client, tmp_path / "rows", tmp_path / "output")
    env.close()
    made = len(Numbering.made)

    result = Replayer().replay(str(record))

    assert coordinator.next == FILES * ROWS
    assert result.divergence is None
    assert len(Numbering.made) == made, "a replay has made a coordinator"


def test_subtasks_share_a_global_aggregate(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    write_ids(tmp_path / "rows", range(FILES))
    (tmp_path / "rows" / END).touch()

    def define(rows: DataStream) -> DataStream:
        return rows.rebalance().process(ShowLargest(), "id bigint, largest bigint").uid("largest")

    start_numbers(environment().set_parallelism(2), define, tmp_path / "rows", tmp_path / "output").wait(timeout=120)

    seen = {row["id"]: row["largest"] for row in spark.read.parquet(str(tmp_path / "output")).collect()}
    assert seen.keys() == set(range(FILES * ROWS))
    known = [largest for largest in seen.values() if largest is not None]
    assert known, "no subtask has seen a result"
    # Values of the other subtask are included, because whole files are added before a result of them is visible.
    assert all(largest % ROWS == ROWS - 1 for largest in known)
