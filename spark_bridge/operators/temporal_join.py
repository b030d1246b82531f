"""Temporal joins: the code and the operator. Workers store the rows, and join them when the watermark has reached them.

Workers emit a row of either side as a struct, named after its side. So expressions over results refer to the columns of
the sides as `left.name` and `right.name`, or just `name` if only one side has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from flykka.actors.machines.state.keyed_state import RestoredKeyedState
from flykka.actors.machines.state.schema_evolution import quoted
from flykka.actors.machines.state.segments import ResultBounds, latest
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.operators.input_code import TagInputCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import check_keys
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator
from flykka.spark_bridge.operators.keyed_rows import KeyedRowsCode
from flykka.spark_bridge.operators.process_functions import keys_of
from flykka.spark_bridge.operators.spark_keyed_batches import SparkTimedTables
from flykka.spark_bridge.program.expressions import columns_read_of_sides
from flykka.spark_bridge.program.prototype import PrototypeError, check_types, transformed
from flykka.spark_bridge.program.side_output import SideOutput
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.rows.type_support import Use, nullable
from flykka.spark_bridge.state.segment_files import StateRows
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.temporal_join import (
    LEFT,
    RIGHT,
    FireTemporalJoin,
    StoreForTemporalJoin,
    TemporalSide,
    TemporalSides,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.join_side import JoinedRows
    from flykka.spark_bridge.operators.operator import Element, Operator, Output

_LATE_COLUMN = "__late"


class TemporalJoinOperator(KeyedProcessOperator[Slices, StateRows]):
    """The join of one attempt. Late rows stay late after a restart, because versions for their time may have been
    removed.
    """

    def __init__(self, context: OperatorContext, code: TemporalJoinCode) -> None:
        function = SparkTimedTables(context, code)
        super().__init__(context.operator_id, function, function.backend)
        self._closed_to_ms: int | None = None
        self._bounds: dict[int, ResultBounds] = {}

    def restore_bounds(self, restored: RestoredKeyedState) -> RestoredKeyedState:
        """Continue from the watermark of the checkpoint. All of the state is needed."""
        self._closed_to_ms = restored.bounds.closed_to_ms
        parts = {
            name: tuple(replace(part, bounds=ResultBounds()) for part in parts)
            for name, parts in restored.parts.items()
        }
        return replace(restored, parts=parts)

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        return super().process_batch(replace(element, watermark_ms=self._closed_at(element.watermark_ms)))

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        watermark_ms = self._closed_at(watermark_ms)
        self._closed_to_ms = None if watermark_ms == WATERMARK_MIN else watermark_ms
        return super().advance_watermark(watermark_ms, processing_time_ms)

    def _closed_at(self, watermark_ms: int) -> int:
        return latest(self._closed_to_ms, watermark_ms) or WATERMARK_MIN

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        super().snapshot_state(checkpoint_id, everything=everything)
        # After a drain the next execution begins event time again, as with windows.
        closed_to = None if self._closed_to_ms == WATERMARK_MAX else self._closed_to_ms
        self._bounds[checkpoint_id] = ResultBounds(closed_to_ms=closed_to)

    def bounds_at(self, checkpoint_id: int) -> ResultBounds:
        return self._bounds.pop(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        super().discard_snapshot(checkpoint_id)
        del self._bounds[checkpoint_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalInputCode(TagInputCode):
    """Drops rows that cannot match before the exchange: rows without event time, and versions without a key.

    If unmatched left rows are dropped, left rows without a key are dropped too.
    """

    event_time: str
    needs_key: bool

    def tagged(self, rows: DataFrame) -> DataFrame:
        rows = TagInputCode.tagged(self, rows.where(F.col(quoted(self.event_time)).isNotNull()))
        if not self.needs_key:
            return rows
        for key in self.key_fields:
            rows = rows.where(F.col(key.name).isNotNull())
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoinCode(KeyedRowsCode):
    """Emits `columns` of each left row and its version, if the two meet the optional `condition`.

    With `side_outputs_late_data`, late rows go to a side output, and state has all columns of the left side.
    """

    kind = OperatorKind.KEYED_PROCESS
    does = "temporal_join"
    emits_with_batches = False

    sides: TemporalSides
    columns: tuple[Column | str, ...] = field(repr=False)
    condition: Column | str | None = None
    side_outputs_late_data: bool = False

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        lists = (StructField(side.name, ArrayType(side.dataType)) for side in self.emitted)
        return (*lists, StructField(NEXT_EVENT_TIMER, LongType()))

    @property
    def fingerprint(self) -> str:
        return f"{self.does}({'left' if self.sides.is_outer else 'inner'}, {self.state_text})"

    @property
    def side(self) -> tuple[SideOutput, ...]:
        if not self.side_outputs_late_data:
            return ()
        left = self.emitted[0].dataType
        assert isinstance(left, StructType), "the rows of the left side are not structs"
        return (SideOutput(tag=Side.LEFT.late_data, column=_LATE_COLUMN, columns=left),)

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return (Side.LEFT.late_data,)

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return TemporalJoinOperator(context, self)

    def function(self, watermark_ms: int) -> StoreForTemporalJoin:
        return StoreForTemporalJoin(sides=self.sides, watermark_ms=watermark_ms, late_data=self._late)

    def firing(self, due_ms: int) -> FireTemporalJoin:
        return FireTemporalJoin(sides=self.sides, due_ms=due_ms, late_data=self._late)

    def results(self, emitted: DataFrame) -> DataFrame:
        if self.condition is not None:
            rows = self._with_names(emitted)
            condition = F.expr(self.condition) if isinstance(self.condition, str) else self.condition
            if self.sides.is_outer:
                emitted = rows.select(LEFT, F.when(condition, F.col(RIGHT)).alias(RIGHT))
            else:
                emitted = rows.where(condition)
        return self._with_names(emitted).select(*self.columns)

    @property
    def _late(self) -> str | None:
        return _LATE_COLUMN if self.side_outputs_late_data else None

    def _with_names(self, emitted: DataFrame) -> DataFrame:
        """Return the two structs, and the columns that only one of them has."""
        columns = [(LEFT, name) for name in self.sides.left.columns]
        columns += [(RIGHT, name) for name in self.sides.right.columns]
        lowered = [name.lower() for _, name in columns]
        alone = [each for each, low in zip(columns, lowered, strict=True) if lowered.count(low) == 1]
        own = (F.col(f"{side}.{quoted(name)}").alias(name) for side, name in alone if name.lower() not in (LEFT, RIGHT))
        return emitted.select(LEFT, RIGHT, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin:
    left: JoinedRows
    right: JoinedRows
    columns: tuple[Column | str, ...]
    condition: Column | str | None = None
    is_outer: bool = False
    row_kind: str | None = None

    def code(self) -> tuple[DataFrame, TemporalJoinCode, tuple[TemporalInputCode, TemporalInputCode]]:
        """Return the prototype of the results, the code of the join, and the code of the parts before the exchange.

        Raises:
            PrototypeError: the keys of the two sides differ in number or type, a column does not fit or is ambiguous,
                or results are computed across rows.
        """
        check_keys(self.left, self.right)
        needed = self._needed()
        schemas = tuple(
            StructType([side.prototype.schema[name] for name in names])
            for side, names in zip((self.left, self.right), needed, strict=True)
        )
        for schema in schemas:
            check_types(schema, Use.PYTHON)
        left, right = (
            TemporalSide(columns=names, event_time=_event_time(side))
            for side, names in zip((self.left, self.right), needed, strict=True)
        )
        keys = keys_of(self.left.prototype, self.left.keys)
        code = TemporalJoinCode(
            keys=tuple(each.name for each in keys.fields),
            key_fields=keys.fields,
            emitted=tuple(
                StructField(name, nullable(schema)) for name, schema in zip((LEFT, RIGHT), schemas, strict=True)
            ),
            sides=TemporalSides(left=left, right=right, row_kind=self.row_kind, is_outer=self.is_outer),
            columns=self.columns,
            condition=self.condition,
            side_outputs_late_data=self.left.side_outputs_late_data,
        )
        inputs = tuple(
            TemporalInputCode(
                number=number,
                schemas=(schemas[0], schemas[1]),
                keys=side.keys,
                key_fields=keys.fields,
                event_time=_event_time(side).column,
                needs_key=number == 1 or not (self.is_outer or side.side_outputs_late_data),
            )
            for number, side in enumerate((self.left, self.right))
        )
        session = self.left.prototype.sparkSession
        no_rows = session.createDataFrame([], StructType(list(code.emitted)))
        return transformed(no_rows, code.results), code, (inputs[0], inputs[1])

    def _needed(self) -> tuple[tuple[str, ...], ...]:
        """Return the columns of each side in state: the columns that a join of two tables reads, and the time
        columns.
        """
        joined = transformed(self.left.prototype, self._of_tables)
        read = columns_read_of_sides(joined)
        if read is None:
            raise PrototypeError(
                "the columns of a join are computed from one row of each side: compute others after it"
            )
        needed_of_sides = []
        for side, names in zip((self.left, self.right), read, strict=True):
            kind = () if self.row_kind is None or side is self.left else (self.row_kind,)
            needed = {*names, _event_time(side).column, *kind}
            columns = side.prototype.columns
            needed_of_sides.append(tuple(each for each in columns if each in needed or side.side_outputs_late_data))
        return tuple(needed_of_sides)

    def _of_tables(self, left: DataFrame) -> DataFrame:
        condition = F.lit(True) if self.condition is None else self.condition
        condition = F.expr(condition) if isinstance(condition, str) else condition
        right = self.right.prototype.alias(RIGHT)
        joined = left.alias(LEFT).join(right, condition, "left" if self.is_outer else "inner")
        return joined.select(*self.columns)


def _event_time(side: JoinedRows) -> EventTime:
    assert side.event_time is not None, "the stream has no event time"
    return side.event_time
