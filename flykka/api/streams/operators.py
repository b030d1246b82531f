"""Adds the operators of streams and of keyed streams to a program, except windows and joins.

Each function takes the rows that the operator reads, and returns the rows that it emits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from flykka.api.runtime_mode import is_unbounded
from flykka.api.streams.program import check_one_program, try_on_prototype
from flykka.api.streams.side_outputs import FunctionOutputs
from flykka.api.streams.stream_type import APPEND_ONLY, Changelog, StreamType
from flykka.api.streams.transformation import (
    Transformation,
    default_uid,
    format_columns,
    function_name,
    leading_to,
    partitioned,
)
from flykka.api.streams.watermark_strategy import WatermarkStrategy, checked_strategy, set_watermarks, watches_order
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.connectors.dataset import as_stored
from flykka.spark_bridge.functions.aggregate_function import ReduceFunction
from flykka.spark_bridge.functions.checkpointed_function import operator_state_of
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.process_function import ProcessFunction
from flykka.spark_bridge.operators.code import AggregateCode, KeyByCode
from flykka.spark_bridge.operators.group_aggregate import GroupAggregateCode
from flykka.spark_bridge.operators.keyed_rows import (
    TableProgram,
    drop_duplicates_code,
    extreme_rows_code,
    process_table_code,
    reduced_rows_code,
)
from flykka.spark_bridge.operators.process import ProcessCode
from flykka.spark_bridge.operators.process_functions import (
    FunctionInputs,
    keyed_process_code,
    keys_of,
    one_input,
    process_code,
)
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode, TransformCode
from flykka.spark_bridge.operators.timestamps import TimestampsAndWatermarksCode
from flykka.spark_bridge.program.functions import aggregated_columns
from flykka.spark_bridge.program.prototype import check_condition, check_types, event_time_column, fitted, running
from flykka.spark_bridge.program.rich_function import RichFunction
from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.sql.row_kinds import no_weight

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.streams.side_outputs import OutputTag
    from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
    from flykka.spark_bridge.operators.keyed_rows import RowPerKeyCode
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

Row = dict[str, Any]


def transform(
    flow: Dataflow,
    name: str,
    make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]],
    *,
    renamed: Mapping[str, str] | None = None,
    per_batch: bool = False,
) -> Dataflow:
    """Apply a function to each batch.

    `make` receives the prototype, checks that the user's arguments fit it, and returns the function of batches.
    `renamed` maps old to new column names. With `per_batch` the result for a row may depend on other rows of the same
    batch.

    Raises:
        StreamTypeError: the function does not fit the rows.
    """
    resources = flow.program.files.resources
    uid = default_uid(OperatorKind.STATELESS, flow.program.next_position)
    function, result = try_on_prototype(
        name,
        lambda: fitted(flow.type.prototype, make, uid=uid, name=name, resources=resources, per_batch=per_batch),
    )
    code = TransformCode(function=function, operator_state=try_on_prototype(name, lambda: operator_state_of(function)))
    return flow.emitted(flow.add_operator(name, code), flow.type.of_rows(result, renamed))


def add_sink(flow: Dataflow, sink: Sink) -> Dataflow:
    if not isinstance(sink, Sink):
        raise ProgramError(f"sink_to after {flow} takes a sink such as FileSink.parquet(path), not {sink!r}")
    code = SinkCode(sink=sink.bound(flow.type.prototype.sparkSession))
    try_on_prototype(str(sink), lambda: sink.check_rows(flow.type.prototype))
    operator = flow.add_operator(str(sink), code)
    operator.publishes_per_checkpoint = sink.publishes_per_checkpoint
    operator.parallelism_limit = sink.parallelism_limit
    return flow.emitted(operator, flow.type)


def process(flow: Dataflow, function: ProcessFunction, output: StructType | str) -> Dataflow:
    if not isinstance(function, ProcessFunction):
        raise ProgramError(
            f"process after {flow} takes a ProcessFunction, or after key_by(...) a KeyedProcessFunction, not"
            f" {argument_repr(function)}"
        )
    name = f"process({type(function).__name__})"
    prototype, code = try_on_prototype(name, lambda: process_code(function_inputs(flow), function, output))
    return processed(flow, name, code, prototype)


def keyed_process(flow: Dataflow, function: KeyedProcessFunction, output: StructType | str) -> Dataflow:
    name = f"process({type(function).__name__})"
    prototype, code = try_on_prototype(
        name,
        lambda: keyed_process_code(function_inputs(flow), keys_of(flow.type.prototype, flow.keys), function, output),
    )
    return processed(flow, name, code, prototype)


def processed(
    flow: Dataflow,
    name: str,
    code: ProcessCode,
    prototype: DataFrame,
    late_data_tag: OutputTag | None = None,
    event_time: EventTime | None = None,
) -> Dataflow:
    """Add an operator that calls a function; its rows have `event_time`, by default the event time of its input."""
    operator = flow.add_operator(name, code)
    row_type = flow.type if event_time is None else replace(flow.type, event_time=event_time)
    emitted = row_type.of_rows(prototype).emitted_by(code)
    return flow.emitted(operator, emitted, FunctionOutputs(operator, flow.type, late_data_tag))


def function_inputs(flow: Dataflow) -> FunctionInputs:
    return one_input(flow.type.prototype, flow.type.event_time, flow.program.files.resources)


def argument_repr(function: object) -> str:
    return f"its class {function.__name__}" if isinstance(function, type) else short_repr(function)


def aggregate(flow: Dataflow, name: str, columns: tuple[Column, ...], weight: str | None = None) -> Dataflow:
    """Compute running aggregates per key; with a column `weight`, as weighted rows by the keys.

    Raises:
        StreamTypeError: a column is not an aggregate that can be combined from partial aggregates, does not fit the
            rows, or has the same name as another column.
    """
    result, plan = try_on_prototype(name, lambda: running(flow.type.prototype, flow.keys, columns))
    code = GroupAggregateCode(plan=plan, weight=weight)
    operator = add_aggregates(flow, name, code)
    if weight is None:
        return flow.emitted(operator, StreamType(prototype=result, event_time=None).emitted_by(code))
    prototype = result.select(no_weight().alias(weight), "*")
    changelog = Changelog(keys=code.upsert_keys, weight=weight)
    return flow.emitted(operator, StreamType(prototype=prototype, event_time=None, changelog=changelog))


def aggregate_columns(flow: Dataflow, function: Literal["sum", "min", "max"], columns: tuple[str, ...]) -> Dataflow:
    if not columns or not all(isinstance(column, str) for column in columns):
        raise ProgramError(
            f"{function} after {flow} takes names of columns, such as {function}('amount'), not"
            f" {format_columns(*columns) or 'nothing'}; aggregate(...) takes expressions"
        )
    return aggregate(
        flow, f"{function}({format_columns(*columns)})", aggregated_columns(flow.type.prototype, function, columns)
    )


def add_aggregates(flow: Dataflow, name: str, code: AggregateCode, *, is_local_first: bool = True) -> Transformation:
    """If `is_local_first`, rows are partially aggregated before the exchange."""
    inputs = flow.inputs
    if is_local_first:
        keys, local_code = KeyByCode(columns=code.plan.keys, of_state=True), LocalAggregateCode(of=code)
        inputs = tuple(
            replace(each, key_by=None if each.key_by is None else keys, local_code=local_code) for each in inputs
        )
    return flow.add_operator(name, code, inputs)


def process_table(flow: Dataflow, program: TableProgram) -> Dataflow:
    called = (
        (program.function, "two tables, rows and state"),
        (program.on_timer or program.function, "a table, state"),
    )
    for function, tables in called:
        if not callable(function):
            raise ProgramError(f"process_table after {flow} takes a function of {tables}, not {function!r}")
    name = f"process_table({function_name(program.function)})"
    prototype, code = try_on_prototype(name, lambda: process_table_code(flow.type.prototype, flow.keys, program))
    return flow.through(name, code, flow.type.of_rows(prototype))


def reduce(flow: Dataflow, function: ReduceFunction[Row] | Callable[[Row, Row], Row]) -> Dataflow:
    if not callable(function) and not isinstance(function, ReduceFunction):
        raise ProgramError(f"reduce after {flow} takes a function of two rows, or a ReduceFunction, not {function!r}")
    of_class = isinstance(function, ReduceFunction)
    name = f"reduce({type(function).__name__ if of_class else function_name(function)})"
    return _keyed_rows(flow, name, lambda: reduced_rows_code(flow.type.prototype, flow.keys, function))


def extreme_rows(flow: Dataflow, verb: str, column: str, *, is_greatest: bool) -> Dataflow:
    if not isinstance(column, str) or not column:
        raise ProgramError(f"{verb} after {flow} takes the name of a column, not {column!r}")
    return _keyed_rows(
        flow,
        f"{verb}({column})",
        lambda: extreme_rows_code(flow.type.prototype, flow.keys, column, is_greatest=is_greatest),
    )


def _keyed_rows(flow: Dataflow, name: str, make: Callable[[], RowPerKeyCode]) -> Dataflow:
    return flow.through(name, try_on_prototype(name, make), StreamType(prototype=flow.type.prototype, event_time=None))


def drop_duplicates(flow: Dataflow, columns: str | Sequence[str] | None, within: Duration | None) -> Dataflow:
    row_type = flow.type
    chosen = row_type.prototype.columns if columns is None else [columns] if isinstance(columns, str) else columns
    if isinstance(chosen, str) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise ProgramError(f"drop_duplicates after {flow} takes names of columns, such as ['id'], not {columns!r}")
    name = f"drop_duplicates({format_columns(*chosen)}{'' if within is None else f', within={within}'})"
    try:
        within_ms = None if within is None else positive_duration_ms(within, "within")
    except DurationError as wrong:
        raise ProgramError(f"{name} after {flow}: {wrong}") from None
    if within_ms is not None and row_type.event_time is None:
        raise StreamTypeError(
            f"{name}: {flow} gives no event time to compare rows by: its source has no timestamp column or no"
            " watermarks, or an operation has dropped or renamed the column"
        )
    code = try_on_prototype(
        name, lambda: drop_duplicates_code(row_type.prototype, tuple(chosen), row_type.event_time, within_ms)
    )
    return flow.keyed(code.keys).through(name, code, row_type)


def assign_timestamps_and_watermarks(flow: Dataflow, strategy: WatermarkStrategy) -> Dataflow:
    event_time = _event_time_of(flow, checked_strategy(strategy))
    if strategy.alignment is not None:
        raise ProgramError(
            "with_watermark_alignment(...) delays reading, so it applies to sources only: pass the strategy to"
            " from_source(...)"
        )
    name = f"assign_timestamps_and_watermarks({event_time or 'none'})"
    code = TimestampsAndWatermarksCode(
        event_time=event_time, watches_order=watches_order(strategy), punctuation=strategy.punctuation
    )
    try_on_prototype(name, lambda: check_condition(flow.type.prototype, strategy.punctuation))
    operator = flow.add_operator(name, code)
    set_watermarks(operator, strategy)
    return flow.emitted(operator, replace(flow.type, event_time=event_time))


def _event_time_of(flow: Dataflow, strategy: WatermarkStrategy) -> EventTime | None:
    if strategy.delay_ms is None:
        return None
    column = strategy.timestamp_column
    if column is not None:
        where = f"assign_timestamps_and_watermarks({column})"
        return EventTime(column=try_on_prototype(where, lambda: event_time_column(flow.type.prototype, column)))
    if flow.type.event_time is None:
        raise StreamTypeError(
            f"assign_timestamps_and_watermarks after {flow}: watermarks need an event time:"
            " with_timestamp_column(...) names its column"
        )
    return flow.type.event_time


def cache(flow: Dataflow) -> Dataflow:
    if flow.type.changelog != APPEND_ONLY:
        raise ProgramError(
            f"cache() after {flow} would lose the order of rows, but a row of this stream replaces an earlier one"
            f" ({flow.type.changelog}): cache an earlier stream"
        )
    row_type, program = replace(flow.type, prototype=as_stored(flow.type.prototype)), flow.program
    operator = program.cached.transformation(flow.inputs, row_type, program.next_position)
    program.add(operator)
    return flow.emitted(operator, row_type)


def add_broadcast_set(flow: Dataflow, variable: Dataflow, name: str) -> None:
    operator, what = flow.operator, f"with_broadcast_set(..., {name!r}) of {flow.operator}"
    code = operator.code
    if not isinstance(code, ProcessCode) and not (
        isinstance(code, TransformCode) and isinstance(code.function, RichFunction)
    ):
        raise ProgramError(
            f"{what}: it has no function that could read the variable; use process(...), a window function, or"
            " transform(...) with a RichFunction"
        )
    check_one_program(what, flow.program, variable.program)
    if any(read.broadcast_variable == name for read in operator.inputs):
        raise ProgramError(f"{what}: the operator already has a broadcast variable of this name")
    before = leading_to(variable.inputs)
    if operator in before:
        raise ProgramError(
            f"{what}: the operator would wait for a broadcast variable that is computed from its own rows"
        )
    for source in filter(is_unbounded, before):
        raise ProgramError(
            f"{what}: a broadcast variable is read when it is complete, but the source {source} ({source.call_site})"
            " has no end: read only existing rows, without monitor_continuously(...) and with a number of rows; use"
            " connect(rules.broadcast(descriptor)) for unbounded rows"
        )
    try_on_prototype(what, lambda: check_types(variable.type.prototype.schema, Use.GROUPS))
    rows = partitioned(variable.inputs, ShipStrategy.BROADCAST)
    flow.program.add_inputs(operator, tuple(replace(each, broadcast_variable=name) for each in rows))
