"""Adds joins of two keyed streams to a program: window, interval, regular and temporal joins, and co-groups.

Each side is reduced to the columns that the join needs before its rows are exchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.api.streams.program import check_one_program, try_on_prototype
from flykka.api.streams.side_outputs import OutputTag, OwnOutputs
from flykka.api.streams.stream_type import APPEND_ONLY, StreamType
from flykka.api.streams.transformation import Input, Transformation, format_columns, function_name, partitioned
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END, EventTime
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import (
    CoGroupCode,
    IntervalJoinCode,
    RegularJoinCode,
    WindowJoinCode,
    check_keys,
    pairs,
)
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide, JoinSideCode
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.operators.temporal_join import TemporalJoin
from flykka.spark_bridge.program.prototype import check_types, has_event_time
from flykka.spark_bridge.program.trials import checked_sendable
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.dataflow import Dataflow
    from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
    from flykka.spark_bridge.operators.code import LocalCode
    from flykka.spark_bridge.operators.join_code import CoGroupFunction, JoinCode
    from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    left: Dataflow
    right: Dataflow

    def __str__(self) -> str:
        return f"{self.left} with {self.right}"

    def check_program(self, verb: str) -> None:
        check_one_program(f"{verb} of {self}", self.left.program, self.right.program)

    def check_timed(self, verb: str) -> None:
        """Check that the sides can be joined by event time.

        Raises:
            ProgramError: the sides belong to different environments or jobs.
            StreamTypeError: a side has no event time.
        """
        self.check_program(verb)
        for each in (self.left, self.right):
            if each.type.event_time is None:
                raise StreamTypeError(
                    f"{verb} of {self}: {each} gives no event time to join by: its source has no timestamp column or"
                    " no watermarks, or an operation has dropped or renamed the column"
                )


def check_append_only(what: str, flow: Dataflow) -> None:
    if flow.type.changelog != APPEND_ONLY:
        raise StreamTypeError(
            f"{what}: the rows of {flow} are {flow.type.changelog}, but the join would keep results of rows"
            " that have changed"
        )


def check_versions(sides: Sides) -> None:
    """Check that the right side of a temporal join is a stream of versions.

    Raises:
        ProgramError: the sides belong to different environments or jobs.
        StreamTypeError: a side has no event time, the left rows are upserts, or the right side is not keyed by the
            keys of its changelog.
    """
    sides.check_timed("temporal_join")
    what, versions = f"temporal_join of {sides}", sides.right
    check_append_only(what, sides.left)
    keys = versions.type.changelog.keys
    if keys is not None and set(keys) != set(versions.type.prototype.select(*versions.keys).columns):
        raise StreamTypeError(
            f"{what}: {versions} consists of {versions.type.changelog}, and its versions have this key: key both"
            f" streams by it, not by {format_columns(*versions.keys)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowJoinSettings:
    windows: PeriodicEventTimeWindows
    outer: frozenset[Side] = frozenset()
    condition: Column | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinSettings:
    interval: Interval
    outer: frozenset[Side] = frozenset()
    condition: Column | str | None = None
    time_column: str | None = None
    tags: Mapping[Side, OutputTag] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularJoinSettings:
    time_to_live_ms: int | None = None
    condition: Column | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoinSettings:
    is_outer: bool = False
    condition: Column | str | None = None
    tag: OutputTag | None = None


def window_join(sides: Sides, settings: WindowJoinSettings, columns: tuple[Column | str, ...]) -> Dataflow:
    name = f"window_join({format_columns(*columns)})"
    what = f"{name} of {sides}"
    _check_columns(what, columns)

    def draft(left: JoinSide, right: JoinSide) -> WindowJoinCode:
        return WindowJoinCode(
            left=left,
            right=right,
            windows=settings.windows,
            columns=columns,
            condition=settings.condition,
            outer=settings.outer,
            left_gates=len(sides.left.inputs),
        )

    left, right = (_timed_rows(side, windows=settings.windows) for side in (sides.left, sides.right))
    prototype, code = try_on_prototype(what, lambda: pairs(left, right, draft))
    row_type = StreamType(prototype=prototype, event_time=OF_WINDOWS)
    return sides.left.emitted(add_join(sides.left, sides.right, name, code), row_type)


def co_group(
    sides: Sides, windows: PeriodicEventTimeWindows, function: CoGroupFunction, output: StructType | str
) -> Dataflow:
    name = f"co_group({function_name(function)})"

    def create() -> tuple[DataFrame, CoGroupCode]:
        left, right = (_timed_rows(side, windows=windows) for side in (sides.left, sides.right))
        check_keys(left, right)
        for side in (left, right):
            check_types(side.prototype.schema, Use.GROUPS)
        prototype = declared_rows(left.prototype.sparkSession, output)
        check_types(prototype.schema, Use.GROUPS)
        code = CoGroupCode(
            left=JoinSide.of(left, left.prototype.columns),
            right=JoinSide.of(right, right.prototype.columns),
            windows=windows,
            function=checked_sendable(function),
            output=prototype.schema,
            outer=frozenset(Side),
            left_gates=len(sides.left.inputs),
        )
        return prototype, code

    prototype, code = try_on_prototype(f"{name} of {sides}", create)
    event_time = OF_WINDOWS if has_event_time(prototype, WINDOW_END) else None
    row_type = StreamType(prototype=prototype, event_time=event_time)
    return sides.left.emitted(add_join(sides.left, sides.right, name, code), row_type)


def interval_join(sides: Sides, settings: IntervalJoinSettings, columns: tuple[Column | str, ...]) -> Dataflow:
    name = f"interval_join({format_columns(*columns)})"
    what = f"{name} of {sides}"
    _check_columns(what, columns)
    _check_interval(what, settings)

    def draft(left: JoinSide, right: JoinSide) -> IntervalJoinCode:
        return IntervalJoinCode(
            left=left,
            right=right,
            interval=settings.interval,
            columns=columns,
            condition=settings.condition,
            time_column=settings.time_column,
            outer=settings.outer,
            left_gates=len(sides.left.inputs),
        )

    flows = {Side.LEFT: sides.left, Side.RIGHT: sides.right}
    left, right = (_timed_rows(flow, side_outputs_late_data=side in settings.tags) for side, flow in flows.items())
    prototype, code = try_on_prototype(what, lambda: pairs(left, right, draft))
    operator = add_join(sides.left, sides.right, name, code)
    event_time = None if settings.time_column is None else EventTime(column=settings.time_column)
    late = {tag: (side.late_data, flows[side].type) for side, tag in settings.tags.items()}
    row_type = StreamType(prototype=prototype, event_time=event_time)
    return sides.left.emitted(operator, row_type, OwnOutputs(operator, late) if late else None)


def _check_interval(what: str, settings: IntervalJoinSettings) -> None:
    if settings.interval.is_empty:
        raise ProgramError(f"{what}: both bounds are equal and one is exclusive, so no rows would match")
    if settings.time_column is not None and settings.outer:
        raise ProgramError(
            f"{what}: rows without a match are emitted when no match can follow, so results of outer joins have no"
            " event time: leave out with_timestamp_column(...)"
        )
    tags = list(settings.tags.values())
    if len(set(tags)) < len(tags):
        raise ProgramError(f"{what}: late rows of both sides go to {tags[0]!r}; give each side a tag of its own")


def regular_join(sides: Sides, settings: RegularJoinSettings, columns: tuple[Column | str, ...]) -> Dataflow:
    name = f"regular_join({format_columns(*columns)})"
    what = f"{name} of {sides}"
    _check_columns(what, columns)

    def draft(left: JoinSide, right: JoinSide) -> RegularJoinCode:
        return RegularJoinCode.of(
            left,
            right,
            columns=columns,
            condition=settings.condition,
            left_gates=len(sides.left.inputs),
            time_to_live_ms=settings.time_to_live_ms,
        )

    has_arrivals = settings.time_to_live_ms is not None
    left, right = (
        JoinedRows(prototype=side.type.prototype, keys=side.keys, event_time=None, has_arrivals=has_arrivals)
        for side in (sides.left, sides.right)
    )
    prototype, code = try_on_prototype(what, lambda: pairs(left, right, draft))
    row_type = StreamType(prototype=prototype, event_time=None)
    return sides.left.emitted(add_join(sides.left, sides.right, name, code), row_type)


def temporal_join(sides: Sides, settings: TemporalJoinSettings, columns: tuple[Column | str, ...]) -> Dataflow:
    name = f"temporal_join({format_columns(*columns)})"
    what = f"{name} of {sides}"
    _check_columns(what, columns)
    join = TemporalJoin(
        left=_timed_rows(sides.left, side_outputs_late_data=settings.tag is not None),
        right=_timed_rows(sides.right),
        columns=columns,
        condition=settings.condition,
        is_outer=settings.is_outer,
        row_kind=sides.right.type.changelog.row_kind,
    )
    prototype, code, parts = try_on_prototype(what, join.code)
    operator = add_temporal_join(sides.left, sides.right, name, code, parts)
    late = {} if settings.tag is None else {settings.tag: (Side.LEFT.late_data, sides.left.type)}
    row_type = sides.left.type.of_rows(prototype)
    return sides.left.emitted(operator, row_type, OwnOutputs(operator, late) if late else None)


def _check_columns(what: str, columns: tuple[Column | str, ...]) -> None:
    if not columns:
        raise ProgramError(f"{what} needs at least one column, such as 'left.*'")


def _timed_rows(
    flow: Dataflow, *, side_outputs_late_data: bool = False, windows: EventTimeWindows | None = None
) -> JoinedRows:
    assert flow.type.event_time is not None, "the stream has no event time"
    return JoinedRows(
        prototype=flow.type.prototype,
        keys=flow.keys,
        event_time=flow.type.event_time,
        side_outputs_late_data=side_outputs_late_data,
        windows=windows,
    )


def add_join(left: Dataflow, right: Dataflow, name: str, code: JoinCode) -> Transformation:
    inputs = (*_cut_down(left.inputs, code.left), *_cut_down(right.inputs, code.right))
    return left.add_operator(name, code, inputs)


def add_temporal_join(
    left: Dataflow, right: Dataflow, name: str, code: TemporalJoinCode, parts: tuple[LocalCode, LocalCode]
) -> Transformation:
    key_by = KeyByCode(columns=code.keys)
    inputs = tuple(
        replace(each, local_code=part)
        for side, part in zip((left, right), parts, strict=True)
        for each in partitioned(side.inputs, ShipStrategy.HASH, key_by)
    )
    return left.add_operator(name, code, inputs)


def _cut_down(inputs: tuple[Input, ...], side: JoinSide) -> tuple[Input, ...]:
    local_code, key_by = JoinSideCode(side=side), side.key_by
    return tuple(replace(each, key_by=key_by, local_code=local_code) for each in inputs)
