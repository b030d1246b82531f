"""Fixtures for tests of the Spark side: small inputs, vertices with defaults, and attempts driven by commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.graph.job_graph import (
    FiringMode,
    JobVertex,
    Operator,
    OperatorRef,
    ResultPartitionType,
    ShipStrategy,
)
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.source import SourceSplit
from flykka.messages.tasks.task import (
    InputChannelDescriptor,
    InputGateDescriptor,
    ResultPartitionDescriptor,
    TaskDeploymentDescriptor,
)
from flykka.messages.wire.ids import AllocationId, JobId, JobVertexId, OperatorId, attempt_id, partition_id
from flykka.messages.wire.ref import Ref
from flykka.runtime.system import ActorSystem
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode, TransformCode
from flykka.spark_bridge.program.aggregates import analyze
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS, DrivenAttempt, drive_attempt

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("key", pa.int64()), ("amount", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


def time_at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def at_ms(seconds: float) -> int:
    return round(time_at(seconds).timestamp() * 1000)


def write_rows(path: Path, rows: Sequence[tuple[int | None, int | None, float]]) -> None:
    """Write a parquet file of rows (key, amount, seconds)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [[row[0] for row in rows], [row[1] for row in rows], [time_at(row[2]) for row in rows]]
    pq.write_table(pa.table(columns, schema=SCHEMA), path)


def count_and_most() -> tuple[Column, ...]:
    return F.count("*").alias("n"), F.max("amount").alias("most")


class Harness:
    """One job on one data plane: a source vertex, and a vertex of windows that reads it and writes files."""

    job_id = JobId("job")

    def __init__(self, plane: SparkDataPlane, registry: CodeRegistry, folder: Path) -> None:
        self.plane = plane
        self.registry = registry
        self.folder = folder
        self.input = folder / "input"
        self.output = folder / "output"
        self.attempts: list[DrivenAttempt] = []
        self.system = ActorSystem("harness", serialize_messages=True)

    def source(self, *codes: OperatorCode, name: str = "source", per_batch: int | None = 1) -> JobVertex:
        """Return a source vertex that reads `input`, with these operators chained after it.

        A split consists of `per_batch` files; if None, of one file, which may be read together with others.
        """
        source = FileSource.parquet(str(self.input), event_time="at")
        if per_batch is not None:
            source = source.files_per_batch(per_batch)
        ends_here = bool(codes) and isinstance(codes[-1], SinkCode)
        return self.vertex(name, SourceCode(source=source, watermark_delay_ms=0), *codes, outputs=not ends_here)

    def windows(
        self, *aggregates: Column, size_ms: int = 1000, slide_ms: int | None = None, offset_ms: int = 0
    ) -> WindowCode:
        """Return windows over `at`, keyed by `key`; by default they count and take the maximum of the amounts."""
        columns = aggregates or count_and_most()
        prototype = self.plane.session.createDataFrame([], "key long, amount long, at timestamp")
        return WindowCode(
            keys=("key",),
            windows=EventTimeWindows(size_ms=size_ms, slide_ms=slide_ms or size_ms, offset_ms=offset_ms),
            event_time=EventTime(column="at"),
            plan=analyze(prototype, ("key",), columns),
        )

    def sink(self) -> SinkCode:
        return SinkCode(sink=FileSink.parquet(str(self.output)))

    def vertex(
        self,
        name: str,
        *codes: OperatorCode,
        outputs: bool = False,
        parallelism: int = 1,
        firing_mode: FiringMode = FiringMode.ON_CHECKPOINT,
    ) -> JobVertex:
        """Return a vertex of chained operators. The last operator feeds the vertex's output, if there is one."""
        operators = tuple(self._operator(name, place, code) for place, code in enumerate(codes))
        return JobVertex(
            vertex_id=JobVertexId(name),
            name=name,
            operators=operators,
            parallelism=parallelism,
            max_parallelism=128,
            outputs=(operators[-1].operator_id,) if outputs else (),
            firing_mode=firing_mode,
        )

    def begin(
        self,
        vertex: JobVertex,
        *,
        subtask: int = 0,
        number: int = 0,
        readers: int = 1,
        strategy: ShipStrategy = ShipStrategy.HASH,
        reads: DrivenAttempt | None = None,
        key_by: OperatorRef | None = None,
        partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED,
        managed_memory_bytes: int | None = None,
    ) -> DrivenAttempt:
        """Start an attempt of a vertex that has this number of reading subtasks, and reads another attempt."""
        attempt = attempt_id(self.job_id, vertex.vertex_id, subtask, number)
        outputs = tuple(
            ResultPartitionDescriptor(
                partition_id=partition_id(attempt, output),
                output=output,
                subpartitions=readers,
                ship_strategy=strategy,
                max_parallelism=128,
                key_by=key_by or self.keys_of(vertex),
                partition_type=partition_type,
            )
            for output in range(len(vertex.outputs))
        )
        descriptor = TaskDeploymentDescriptor(
            job_id=self.job_id,
            attempt=attempt,
            attempt_number=number,
            vertex=vertex,
            subtask=subtask,
            allocation_id=AllocationId("allocation"),
            outputs=outputs,
            inputs=() if reads is None else (self._gate(reads, subtask),),
            checkpoint_directory=str(self.folder / "checkpoints"),
            managed_memory_bytes=managed_memory_bytes,
        )
        driven = drive_attempt(self.system, descriptor, lambda report: self.plane.engine(descriptor, report))
        self.attempts.append(driven)
        return driven

    def keys_of(self, vertex: JobVertex) -> OperatorRef:
        """Return the columns by which the rows of a vertex are partitioned: `key` of the rows, or the keys of its state
        rows.
        """
        code = self.registry.resolve(vertex.operators[-1].ref)
        if isinstance(code, LocalAggregateCode):
            return self.registry.bind("state-keys", KeyByCode(columns=code.of.plan.keys, of_state=True))
        return self.registry.bind("keys", KeyByCode(columns=("key",)))

    def splits(self, vertex: JobVertex) -> list[SourceSplit]:
        return list(self.plane.split_discovery(self.job_id, vertex.operators[0]).discover(b"").splits)

    def published(self) -> DataFrame:
        return self.plane.session.read.parquet(str(self.output))

    def persisted(self) -> frozenset[int]:
        return frozenset(self.plane.session.sparkContext._jsc.getPersistentRDDs())

    def lose_local_state(self) -> None:
        """Make later attempts read only checkpoints, as in another process."""
        self.plane._jobs[self.job_id].services.local_states.close()

    def end(self) -> None:
        self.plane.release_job(self.job_id)
        self.system.terminate().wait(PATIENCE_SECONDS)

    def _operator(self, vertex: str, place: int, code: OperatorCode) -> Operator:
        kind = code.of.local_kind if isinstance(code, LocalAggregateCode) else code.kind
        uid = f"{vertex}-{kind.value.lower().replace('_', '-')}-{place}"
        return Operator(
            operator_id=OperatorId(f"{uid}-id"),
            ref=self.registry.bind(uid, code),
            name=uid,
            kind=kind,
            input_operator=place - 1 if place else None,
        )

    def _gate(self, reads: DrivenAttempt, subtask: int) -> InputGateDescriptor:
        (output,) = reads.engine.descriptor.outputs
        channel = InputChannelDescriptor(
            partition_id=output.partition_id, subpartition=subtask, task_manager=Ref("/user/task-manager-1", 1)
        )
        return InputGateDescriptor(gate=0, channels=(channel,))


def transform(function: Callable[[DataFrame], DataFrame]) -> TransformCode:
    return TransformCode(function=function)


END = WATERMARK_MAX
