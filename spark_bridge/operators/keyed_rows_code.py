"""The code of operators that work on all rows of a batch at once, with the state of their keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, TimestampType

from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.spark_keyed_batches import keyed_batch_operator, keyed_table_operator
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.worker.drop_duplicates import (
    IS_SEEN,
    SEEN_AT,
    DropDuplicates,
    DropDuplicatesWithin,
    ForgetSeen,
)
from flykka.spark_bridge.worker.table_function import FireTableTimers, ProcessTable, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.materialise import Slices
    from flykka.spark_bridge.worker.kept_rows import KeepExtremeRow, ReduceRows
    from flykka.spark_bridge.worker.process_batch import BatchFunction
    from flykka.spark_bridge.worker.segment_file import CleanUp


def with_keys(rows: DataFrame, key_fields: Sequence[StructField], keys: Sequence[Column | str]) -> DataFrame:
    pairs = zip(key_fields, keys, strict=True)
    columns = {field: F.col(key) if isinstance(key, str) else key for field, key in pairs}
    return rows.withColumns({each.name: normalised_column(key, each.dataType) for each, key in columns.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRowsCode(OperatorCode):
    """A function of keyed batches. `keys` are those of the edge before it."""

    is_head = True
    is_computed = True
    does: ClassVar[str]

    keys: tuple[Column | str, ...]
    key_fields: tuple[StructField, ...]
    emitted: tuple[StructField, ...]

    @property
    @abstractmethod
    def state_fields(self) -> tuple[StructField, ...]:
        """The columns of state."""

    @abstractmethod
    def function(self, watermark_ms: int) -> BatchFunction:
        """The function that a worker applies to a batch which comes behind a watermark."""

    def clean_up(self, watermark_ms: int) -> CleanUp | None:
        """Remove state that nobody needs behind a watermark; None where all of it is needed."""
        return None

    @property
    def side(self) -> tuple[SideOutput, ...]:
        return ()

    @property
    def fingerprint(self) -> str:
        return f"{self.does}({self.kept})"

    @property
    def kept(self) -> str:
        """The columns of keys and state as a text."""
        keys = ", ".join(field.dataType.simpleString() for field in self.key_fields)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.state_fields)
        return f"keys: {keys}; state: {columns}"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return keyed_batch_operator(context, self)

    def keyed(self, rows: DataFrame) -> DataFrame:
        return with_keys(rows, self.key_fields, self.keys)

    def results(self, emitted: DataFrame) -> DataFrame:
        return emitted


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTableCode(KeyedRowsCode):
    """A user's function of all rows of a batch and of the state of their keys."""

    kind = OperatorKind.KEYED_PROCESS
    does = "process_table"
    emits_with_batches = True

    state_fields: tuple[StructField, ...]
    spec: TableSpec
    on_timer: TableSpec | None = None

    def function(self, watermark_ms: int) -> ProcessTable:
        return ProcessTable(spec=self.spec)

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return keyed_batch_operator(context, self) if self.on_timer is None else keyed_table_operator(context, self)

    def firing(self, due_ms: int) -> FireTableTimers:
        assert self.on_timer is not None, "there are timers"
        return FireTableTimers(spec=self.on_timer, due_ms=due_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRowsCode(KeyedRowsCode):
    """A row of each key that is kept, and emitted by each batch with its key."""

    kind = OperatorKind.GROUP_AGGREGATE
    does = "kept_rows"

    state_fields: tuple[StructField, ...]
    keep: KeepExtremeRow | ReduceRows
    columns_of_keys: tuple[str, ...]

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        return self.columns_of_keys

    def function(self, watermark_ms: int) -> KeepExtremeRow | ReduceRows:
        return self.keep


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDuplicatesCode(KeyedRowsCode):
    """The first row of each key, for ever (`within_ms` is None), or within a time."""

    kind = OperatorKind.KEYED_PROCESS
    does = "drop_duplicates"

    columns: tuple[str, ...]
    event_time: EventTime | None
    within_ms: int | None

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        """The event time at which a key was seen, or that it was."""
        if self.within_ms is None:
            return (StructField(IS_SEEN, BooleanType()),)
        return (StructField(SEEN_AT, TimestampType()),)

    def function(self, watermark_ms: int) -> DropDuplicates | DropDuplicatesWithin:
        if self.within_ms is None:
            return DropDuplicates(columns=self.columns)
        assert self.event_time is not None, "times are compared"
        return DropDuplicatesWithin(
            columns=self.columns,
            event_time=self.event_time,
            within_ms=self.within_ms,
            watermark_ms=watermark_ms,
        )

    def clean_up(self, watermark_ms: int) -> ForgetSeen | None:
        return None if self.within_ms is None else ForgetSeen(within_ms=self.within_ms, watermark_ms=watermark_ms)
