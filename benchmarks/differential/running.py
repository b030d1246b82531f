"""Runs programs as streams, several in one job, and compares the output of each with one Spark batch."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, StructType, TimestampType

from benchmarks.differential.batches import Batches, rows_of
from benchmarks.differential.cases import EQUAL, Case, Mode, Outcome, differs, short
from benchmarks.differential.expressions import quoted
from benchmarks.differential.tables import Table, write_file
from flykka import (
    DataStream,
    DeltaSink,
    FileSink,
    FileSource,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.errors import FlykkaError, ProgramError
from flykka.messages.control.job import CheckpointCompleted, ExecutionStateChanged
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.message import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "__key"
_WAIT_S = 300.0
"""Seconds that a job may take, for each seed whose programs it runs."""
_CHECKPOINT_INTERVAL = "300ms"


class _JobFailedError(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.why)
        self.outcome = outcome


def run(spark: SparkSession, cases: Sequence[Case], mode: Mode, batches: Batches | None = None) -> list[Outcome]:
    """Run cases with one time zone as one job; if that fails, run those of each seed, and then each case separately."""
    batches = batches or Batches(spark)
    try:
        return _run_job(batches, cases, mode)
    except _JobFailedError as failed:
        if len(cases) == 1:
            return [failed.outcome]
        parts = [list(part) for _, part in groupby(cases, lambda case: id(case.tables))]
        if len(parts) == 1:
            parts = [[case] for case in cases]
        apart = [outcome for part in parts for outcome in run(spark, part, mode, batches)]
        if all(outcome.kind == "equal" for outcome in apart):
            return [differs("runs by itself, but not beside other programs", failed) for _ in cases]
        return apart


def _run_job(batches: Batches, cases: Sequence[Case], mode: Mode) -> list[Outcome]:
    with TemporaryDirectory(prefix="flykka-differential-") as folder, _zone(batches.spark, cases[0].zone):
        job = _Job(batches, cases, Path(folder))
        try:
            job.run(mode)
        except ProgramError as refused:
            raise _JobFailedError(Outcome("refused", f"when the job is executed: {short(refused)}")) from refused
        except (FlykkaError, TimeoutError) as failed:
            raise _JobFailedError(differs("the job fails", failed)) from failed
        return [job.outcome(place) for place in range(len(cases))]


@contextmanager
def _zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


class _Job:
    def __init__(self, batches: Batches, cases: Sequence[Case], folder: Path) -> None:
        self._batches, self._cases, self._folder = batches, cases, folder
        # Cases with the same tables share the sources.
        self._sets = list({id(case.tables): case.tables for case in cases}.values())
        self._wait_s = _WAIT_S * len(self._sets)
        self._streams: list[DataStream | Outcome] = []

    def run(self, mode: Mode) -> None:
        self._put_files(mode, second=False)
        if not mode.in_halves:
            self._put_files(mode, second=True)
        with self._environment(mode.parallelism, mode) as env:
            self._define(env, mode)
            if not any(isinstance(stream, DataStream) for stream in self._streams):
                return
            client = env.execute_async("differential")
            watch = _Watch(client) if mode.in_halves else None
            if watch is not None:
                watch.wait_for_checkpoints(self._wait_s)
            if watch is not None and mode.kill:
                env.cluster.kill_task_manager(watch.task_managers[-1])
                self._put_files(mode, second=True)
            if mode.restored_at is None or client.done():
                client.wait(timeout=self._wait_s)
                return
            savepoint = client.stop_with_savepoint(timeout=self._wait_s)
        self._put_files(mode, second=True)
        with self._environment(mode.restored_at, mode) as env:
            self._define(env, mode)
            env.from_savepoint(savepoint).execute_async("differential").wait(timeout=self._wait_s)

    def _environment(self, parallelism: int, mode: Mode) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=8)
        env.set_checkpoint_dir(str(self._folder / "checkpoints")).set_checkpoint_fsync(False)
        env.set_default_savepoint_directory(str(self._folder / "savepoints"))
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=int(mode.kill), delay="0s"))
        if mode.restored_at is not None:
            # As in Flink, operators without a uid only keep their state if the same operators are chained.
            env.disable_operator_chaining()
        if mode.knows_late_rows:
            # Late rows are defined file by file, so each file must be a batch.
            env.disable_batch_coalescing()
        return env.set_parallelism(parallelism)

    def _input(self, place: int, table: Table) -> Path:
        return self._folder / f"input-{place}-{table.name}"

    def _put_files(self, mode: Mode, *, second: bool) -> None:
        for place, tables in enumerate(self._sets):
            for table in tables:
                folder = self._input(place, table)
                folder.mkdir(exist_ok=True)
                files = table.files if mode.knows_late_rows else table.in_time().files
                half = (len(files) + 1) // 2
                for number, rows in enumerate(files):
                    if (number >= half) == second:
                        write_file(table, rows, folder / f"{number}.parquet")
                if second:
                    (folder / "_SUCCESS").touch()

    def _define(self, env: StreamExecutionEnvironment, mode: Mode) -> None:
        if mode.in_halves:
            env.enable_checkpointing(_CHECKPOINT_INTERVAL)
        sources = [
            {table.name: self._source(env, place, table, mode) for table in tables}
            for place, tables in enumerate(self._sets)
        ]
        self._streams = []
        for place, case in enumerate(self._cases):
            found = next(number for number, tables in enumerate(self._sets) if tables is case.tables)
            for table in case.tables:
                key = table.columns["id"] if table.primary_key else None
                env.create_temporary_view(table.name, sources[found][table.name], primary_key=key)
            try:
                stream: DataStream = eval(case.stream, {**self._batches.names, **sources[found], "env": env})
                self._write(stream, place)
                self._streams.append(stream)
            except ProgramError as refused:
                self._streams.append(Outcome("refused", f"{type(refused).__name__}: {short(refused)}"))
            except Exception as wrong:  # noqa: BLE001 - whatever is no refusal is a difference.
                self._streams.append(differs(f"the stream is no refusal but {type(wrong).__name__}", wrong))

    def _source(self, env: StreamExecutionEnvironment, place: int, table: Table, mode: Mode) -> DataStream:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(table.bound)
        source = FileSource.parquet(str(self._input(place, table)), schema=table.ddl).files_per_batch(1)
        if mode.in_halves:
            source = source.monitor_continuously("100ms")
        name = f"{table.name}-{place}"
        timed = strategy.with_timestamp_column(table.columns["at"])
        # Rows of a key must arrive in order, and late rows after the others.
        return env.from_source(source, timed, name, uid=name).set_parallelism(1)

    def _write(self, stream: DataStream, place: int) -> None:
        keys, kind = stream.changelog.keys, stream.changelog.row_kind
        path = str(self._folder / f"output-{place}")
        if keys is None:
            stream.sink_to(FileSink.parquet(path)).uid(f"out-{place}")
            return
        # Keys of a Delta table must not be null, and must be equal if they are equal in GROUP BY.
        parts = [_key_text(quoted(key), stream.schema[key].dataType) for key in keys]
        keyed = stream.with_column(KEY, F.expr(f"concat_ws('|', {', '.join([*parts, chr(39) * 2])})"))
        keyed.sink_to(DeltaSink.upsert(path, keys=[KEY], row_kind=kind)).uid(f"out-{place}")

    def outcome(self, place: int) -> Outcome:
        stream, case = self._streams[place], self._cases[place]
        if isinstance(stream, Outcome):
            return stream
        expected = self._batches.result(case)
        if isinstance(expected, Outcome):
            return expected
        kind = stream.changelog.row_kind
        ours, theirs = (
            [f"{field.name} {field.dataType.simpleString()}" for field in schema if field.name != kind]
            for schema in (stream.schema, expected.schema)
        )
        if ours != theirs:
            return Outcome("differs", f"the columns are {ours} in the stream, {theirs} in the batch", "columns")
        written = self._remaining(place, stream)
        if stream.changelog.keys == () and not written and _is_of_no_rows(expected.rows):
            return EQUAL
        return _compared(written, expected.rows)

    def _remaining(self, place: int, stream: DataStream) -> Counter[tuple[Any, ...]]:
        """Count the rows that remain; counts are negative if more rows were deleted than inserted."""
        table, kind = self._result(place, stream), stream.changelog.row_kind
        if stream.changelog.keys is not None or kind is None or not table.num_rows:
            return rows_of(table)
        is_deleted = pc.is_in(table.column(kind), pa.array(["-D", "-U"]))
        remaining, deleted = (
            rows_of(table.filter(each).drop_columns([kind])) for each in (pc.invert(is_deleted), is_deleted)
        )
        remaining.subtract(deleted)
        return Counter({row: number for row, number in remaining.items() if number})

    def _result(self, place: int, stream: DataStream) -> pa.Table:
        path = self._folder / f"output-{place}"
        if stream.changelog.keys is None:
            names = stream.schema.names
            written = [pq.read_table(file).select(names) for file in path.glob("[!._]*.parquet")]
            # A column that is never null in some files may be null in other files.
            return pa.concat_tables(written, promote_options="default") if written else pa.table({})
        if not DeltaTable.is_deltatable(str(path)):
            return pa.table({})
        # The files are read directly, because Python cannot represent statistics of dates after the year 9999.
        files = DeltaTable(str(path)).file_uris()
        return pa.concat_tables(map(pq.read_table, files)).drop_columns([KEY]) if files else pa.table({})


class _Watch:
    """Tracks a job's completed checkpoints, and the TaskManagers that run it."""

    def __init__(self, client: JobClient) -> None:
        self._client, self._checkpoints = client, 0
        self._enough = threading.Event()
        self.task_managers: list[str] = []
        client.add_listener(self._on_message)

    def _on_message(self, message: Message) -> None:
        match message:
            case ExecutionStateChanged(state=ExecutionState.RUNNING, task_manager=str(name)):
                self.task_managers.append(name)
            case CheckpointCompleted():
                self._checkpoints += 1
                if self._checkpoints == 2:
                    self._enough.set()
            case _:
                pass

    def wait_for_checkpoints(self, seconds: float) -> None:
        """Wait until two checkpoints have completed, or the job has ended."""
        deadline = time.monotonic() + seconds
        while not self._enough.wait(timeout=0.1) and not self._client.done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no two checkpoints within {seconds:.0f} s")


def _key_text(name: str, type_: DataType) -> str:
    """Return an expression whose string is equal for values that GROUP BY puts into one group."""
    if isinstance(type_, StructType):
        return ", ".join(_key_text(f"{name}.{quoted(field.name)}", field.dataType) for field in type_)
    value = name
    if isinstance(type_, DoubleType):
        value = f"{name} + 0.0D"
    elif isinstance(type_, TimestampType):
        # Formatted times are ambiguous in the hour in which clocks go back.
        value = f"unix_micros({name})"
    return f"coalesce(concat('=', CAST({value} AS STRING)), 'null')"


def _is_of_no_rows(rows: Counter[tuple[Any, ...]]) -> bool:
    """Return True for the aggregates of an empty table, which a stream only emits after a row has arrived."""
    return rows.total() == 1 and all(value in (None, 0) for row in rows for value in row)


def _compared(written: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]) -> Outcome:
    if written == expected:
        return EQUAL
    missing, extra = list((expected - written).elements()), list((written - expected).elements())
    shown = [
        f"{len(rows)} {what} rows, such as {rows[:3]}"
        for what, rows in (("missing", missing), ("extra", extra))
        if rows
    ]
    return Outcome("differs", "; ".join(shown), "rows")
