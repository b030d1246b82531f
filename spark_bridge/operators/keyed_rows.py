"""Functions of all rows of a keyed batch. Their columns are checked when the program is built."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.functions.aggregate_function import ReduceFunction, reducer
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.operators.spark_keyed_batches import keyed_batch_operator, keyed_table_operator, with_keys
from flykka.spark_bridge.program.pickled import pickled_function
from flykka.spark_bridge.program.prototype import PrototypeError, check_types, key_schema, transformed
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.worker.drop_duplicates import (
    IS_SEEN,
    SEEN_AT,
    DropDuplicates,
    DropDuplicatesWithin,
    ExpireDuplicates,
)
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.row_per_key import HAS_ROW, KeepExtremeRow, ReduceRows
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.table_function import FireTableTimers, Frames, ProcessTable, TableFunction, TableSpec
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.materialise import Slices
    from flykka.spark_bridge.worker.process_batch import BatchFunction
    from flykka.spark_bridge.worker.segment_file import CleanUp


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRowsCode(OperatorCode):
    """A function of keyed batches. `keys` are the keys of the preceding edge."""

    is_head = True
    is_computed = True
    does: ClassVar[str]

    keys: tuple[Column | str, ...]
    key_fields: tuple[StructField, ...]
    emitted: tuple[StructField, ...]

    @property
    @abstractmethod
    def state_fields(self) -> tuple[StructField, ...]: ...

    @abstractmethod
    def function(self, watermark_ms: int) -> BatchFunction: ...

    def clean_up(self, watermark_ms: int) -> CleanUp | None:
        return None

    @property
    def side(self) -> tuple[SideOutput, ...]:
        return ()

    @property
    def fingerprint(self) -> str:
        return f"{self.does}({self.state_text})"

    @property
    def state_text(self) -> str:
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
        assert self.on_timer is not None, "the function has no timers"
        return FireTableTimers(spec=self.on_timer, due_ms=due_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPerKeyCode(KeyedRowsCode):
    """Stores one row for each key. Each batch updates the rows of its keys and emits them."""

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
    """Emits the first row of each key: only once or, with `within_ms`, again after that time."""

    kind = OperatorKind.KEYED_PROCESS
    does = "drop_duplicates"

    columns: tuple[str, ...]
    event_time: EventTime | None
    within_ms: int | None

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        if self.within_ms is None:
            return (StructField(IS_SEEN, BooleanType()),)
        return (StructField(SEEN_AT, TimestampType()),)

    def function(self, watermark_ms: int) -> DropDuplicates | DropDuplicatesWithin:
        if self.within_ms is None:
            return DropDuplicates(columns=self.columns)
        assert self.event_time is not None, "the rows have no event time to compare"
        return DropDuplicatesWithin(
            columns=self.columns,
            event_time=self.event_time,
            within_ms=self.within_ms,
            watermark_ms=watermark_ms,
        )

    def clean_up(self, watermark_ms: int) -> ExpireDuplicates | None:
        return None if self.within_ms is None else ExpireDuplicates(within_ms=self.within_ms, watermark_ms=watermark_ms)


Keys = Sequence["Column | str"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgram:
    function: TableFunction
    state: str | StructType
    output: str | StructType
    frames: str
    timer: str | None = None
    on_timer: TableFunction | None = None


def process_table_code(prototype: DataFrame, keys: Keys, program: TableProgram) -> tuple[DataFrame, ProcessTableCode]:
    """Return the prototype of a function's results, and its code.

    Raises:
        PrototypeError: columns cannot be parsed or have reserved names, a function cannot be pickled, or there is a
            timer column without a function or the other way round.
    """
    if program.frames not in tuple(Frames):
        raise PrototypeError(f"frames are 'arrow' or 'pandas', not {program.frames!r}")
    check_types(prototype.schema, Use.PYTHON)
    emitted = declared_rows(prototype.sparkSession, program.output)
    state = declared_rows(prototype.sparkSession, program.state).schema
    keyed = key_schema(prototype, keys)
    for name, key in zip(keyed.names, keys, strict=True):
        _check_key(prototype, name, key)
    _check_state_names(state, keyed.names)
    _check_timer(program, state)
    spec = TableSpec(
        pickled=pickled_function(program.function),
        frames=Frames(program.frames),
        keys=tuple(keyed.names),
        columns=tuple(prototype.columns),
        emitted=arrow_schema(emitted.schema),
        timer=program.timer,
    )
    on_timer = None if program.on_timer is None else replace(spec, pickled=pickled_function(program.on_timer))
    return emitted, ProcessTableCode(
        keys=tuple(keys),
        key_fields=key_fields(keyed),
        emitted=tuple(emitted.schema),
        state_fields=tuple(state) if on_timer is None else (*state, StructField(NEXT_EVENT_TIMER, LongType())),
        spec=spec,
        on_timer=on_timer,
    )


def _check_timer(program: TableProgram, state: StructType) -> None:
    if (program.timer is None) is not (program.on_timer is None):
        raise PrototypeError("timer (the column of state with the times) and on_timer belong together: pass both")
    if program.timer is None:
        return
    if program.timer not in state.names:
        raise PrototypeError(f"the timer {program.timer!r} is not a column of the state: {', '.join(state.names)}")
    data_type = state[program.timer].dataType
    if not isinstance(data_type, TimestampType):
        raise PrototypeError(f"the timer {program.timer!r} is of type {data_type.simpleString()}, not timestamp")


def extreme_rows_code(prototype: DataFrame, keys: Keys, column: str, *, is_greatest: bool) -> RowPerKeyCode:
    """Return code that keeps the row of each key in which a column is least or greatest. Raises `PrototypeError` if
    there is no such column, or its values have no order.
    """
    name = _name_of(prototype, column)
    check_types(prototype.select(quoted(name)).schema, Use.ORDER)
    return _row_per_key_code(prototype, keys, KeepExtremeRow(column=name, is_greatest=is_greatest))


def reduced_rows_code(
    prototype: DataFrame,
    keys: Keys,
    function: ReduceFunction[dict[str, Any]] | Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
) -> RowPerKeyCode:
    reducer(function)
    return _row_per_key_code(prototype, keys, ReduceRows(pickled=pickled_function(function)))


def drop_duplicates_code(
    prototype: DataFrame, columns: Sequence[str], event_time: EventTime | None, within_ms: int | None
) -> DropDuplicatesCode:
    """Return code for each key's first row. Raises `PrototypeError` if a column is missing or unusable in Python."""
    check_types(prototype.schema, Use.PYTHON)
    keys = tuple(quoted(_name_of(prototype, name)) for name in columns)
    return DropDuplicatesCode(
        keys=keys,
        key_fields=key_fields(key_schema(prototype, keys)),
        emitted=tuple(prototype.schema),
        columns=tuple(prototype.columns),
        event_time=event_time,
        within_ms=within_ms,
    )


def key_fields(keys: StructType) -> tuple[StructField, ...]:
    return tuple(StructField(f"{KEY_PREFIX}{place}", key.dataType) for place, key in enumerate(keys))


def _row_per_key_code(prototype: DataFrame, keys: Keys, keep: KeepExtremeRow | ReduceRows) -> RowPerKeyCode:
    check_types(prototype.schema, Use.PYTHON)
    _check_state_names(prototype.schema, ())
    keyed = key_schema(prototype, keys)
    columns = [_column_of(prototype, name, key) for name, key in zip(keyed.names, keys, strict=True)]
    return RowPerKeyCode(
        keys=tuple(keys),
        columns_of_keys=() if None in columns else tuple(filter(None, columns)),
        key_fields=key_fields(keyed),
        emitted=tuple(prototype.schema),
        state_fields=(*prototype.schema, StructField(HAS_ROW, BooleanType())),
        keep=keep,
    )


def _name_of(prototype: DataFrame, column: str) -> str:
    (name,) = transformed(prototype, lambda rows: rows.select(rows[quoted(column)])).columns
    found: str = next((each for each in prototype.columns if each.lower() == name.lower()), name)
    return found


def _column_of(prototype: DataFrame, name: str, key: Column | str) -> str | None:
    column = next((each for each in prototype.columns if each.lower() == name.lower()), None)
    if column is None or not prototype.select(key).sameSemantics(prototype.select(quoted(column))):
        return None
    return column


def _check_key(prototype: DataFrame, name: str, key: Column | str) -> None:
    if name in prototype.columns and _column_of(prototype, name, key) is None:
        raise PrototypeError(
            f"the key {name!r} has the name of a column of the rows, but a different value: give it another name with"
            " .alias(...)"
        )


def _check_state_names(state: StructType, keys: Sequence[str]) -> None:
    for name in state.names:
        if name.startswith("__"):
            raise PrototypeError(f"the column {name!r} cannot be state: names that begin with '__' are reserved")
        if name in keys:
            raise PrototypeError(f"both the state and the keys have a column {name!r}: rename one of them")
