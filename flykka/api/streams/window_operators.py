"""Adds window operators to a program: aggregates of columns, functions of DataFrames, functions of rows.

Aggregates and functions of DataFrames run as Spark plans where possible, partly before the exchange. Other functions
run in Python workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from flykka.api.streams.operators import add_aggregates, function_inputs, processed
from flykka.api.streams.program import at_least_one, try_on_prototype
from flykka.api.streams.side_outputs import OutputTag, OwnOutputs
from flykka.api.streams.transformation import Transformation, format_columns, function_name
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.functions.windowing.triggers import CountTrigger, PurgingTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import AllRows
from flykka.spark_bridge.functions.windowing.window_function import EmitElements, EmitRows
from flykka.spark_bridge.functions.windowing.window_operator import Windowing, WindowOperator
from flykka.spark_bridge.operators.process_functions import keyed_process_code, keys_of
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.window import LATE_DATA
from flykka.spark_bridge.program.aggregates import PartialAggregates, analyze
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.program.prototype import (
    applied_to_windows,
    check_types,
    has_event_time,
    row_type,
    window_function,
    windowed,
    with_bounds,
)
from flykka.spark_bridge.program.trials import checked_function
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.spark_bridge.functions.windowing.evictors import Evictor
    from flykka.spark_bridge.functions.windowing.trigger import Trigger
    from flykka.spark_bridge.functions.windowing.window_contents import Combination
    from flykka.spark_bridge.functions.windowing.window_function import AnyWindowFunction
    from flykka.spark_bridge.operators.process import KeyedProcessCode
    from flykka.spark_bridge.program.aggregates import AggregatePlan
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

BatchFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Without a trigger, the assigner's default trigger is used."""

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None


def windows_of(flow: Dataflow, assigner: WindowAssigner) -> WindowSettings:
    """Create the settings of windows, after checking that they fit the rows.

    Raises:
        ProgramError: `assigner` is not a window assigner.
        StreamTypeError: event-time windows on rows without event time.
    """
    if not isinstance(assigner, WindowAssigner):
        raise ProgramError(
            f"windows after {flow} take an assigner such as TumblingEventTimeWindows.of('1h') or"
            f" EventTimeSessionWindows.with_gap('30min'), not {assigner!r}"
        )
    if assigner.is_event_time() and flow.type.event_time is None:
        raise StreamTypeError(
            f"{flow} gives no event time to window by: its source has no timestamp column or no watermarks, or an"
            " operation has dropped or renamed the column"
        )
    return WindowSettings(assigner=assigner)


def count_windows(size: int, slide: int | None) -> WindowSettings:
    at_least_one(size, "number of rows of a window")
    settings = WindowSettings(assigner=GlobalWindows.create())
    if slide is None:
        return replace(settings, trigger=PurgingTrigger.of(CountTrigger.of(size)))
    at_least_one(slide, "number of rows between windows")
    return replace(settings, trigger=CountTrigger.of(slide), evictor=CountEvictor.of(size))


def aggregate_windows(flow: Dataflow, settings: WindowSettings, columns: tuple[Column, ...]) -> Dataflow:
    assigner = settings.assigner
    if isinstance(assigner, EventTimeSessionWindows):
        _check_sessions(flow, assigner, settings)
    elif not isinstance(assigner, PeriodicEventTimeWindows):
        raise _not_in_columns(flow, f"in {type(assigner).__name__}")
    for verb in ("trigger", "evictor"):
        if getattr(settings, verb):
            raise _not_in_columns(flow, f"with {verb}(...)")
    name = f"aggregate({format_columns(*columns)})"
    prototype = try_on_prototype(name, lambda: windowed(flow.type.prototype, flow.keys, columns))
    if isinstance(assigner, EventTimeSessionWindows):
        operator = _add_sessions(flow, assigner, name, columns)
    else:
        operator = _add_windows(flow, assigner, settings, name, analyze(flow.type.prototype, flow.keys, columns))
    return _results(flow, settings, operator, prototype)


def _check_sessions(flow: Dataflow, sessions: EventTimeSessionWindows, settings: WindowSettings) -> None:
    if sessions.dynamic_gap is not None:
        raise _not_in_columns(flow, "in sessions with a dynamic gap")
    if settings.allowed_lateness_ms:
        raise _not_in_columns(flow, "in sessions with allowed_lateness(...)")
    if settings.late_data_tag is not None:
        raise _not_in_columns(flow, "in sessions with side_output_late_data(...)")


def _not_in_columns(flow: Dataflow, why: str) -> ProgramError:
    return ProgramError(
        f"the window aggregation after {flow} aggregates columns in tumbling and sliding windows of event time and in"
        f" sessions, which fire at their end, not {why}: give aggregate(...) an AggregateFunction, or use"
        " reduce(function) or process(function, output)"
    )


def apply_to_windows(flow: Dataflow, settings: WindowSettings, function: BatchFunction) -> Dataflow:
    windows = settings.assigner
    if isinstance(windows, PeriodicEventTimeWindows) and not (settings.trigger or settings.evictor):
        rows, name = flow.type.prototype, f"apply({function_name(function)})"
        prototype, plan = try_on_prototype(name, lambda: window_function(rows, flow.keys, checked_function(function)))
        return _results(flow, settings, _add_windows(flow, windows, settings, name, plan), prototype)
    for applies, why in (
        (isinstance(windows, GlobalWindows), "these windows have no bounds that distinguish them"),
        (settings.trigger, "windows with a trigger may fire several times, and their rows would be mixed"),
        (settings.allowed_lateness_ms, "these windows fire again for each late row, and their rows would be mixed"),
    ):
        if applies:
            raise ProgramError(f"apply after {flow}: {why}: use process(function, output)")
    output = with_bounds(flow.type.prototype)
    return process_windows(flow, settings, f"apply({function_name(function)})", AllRows(), EmitRows(), output, function)


def _add_windows(
    flow: Dataflow, windows: PeriodicEventTimeWindows, settings: WindowSettings, name: str, plan: AggregatePlan
) -> Transformation:
    assert flow.type.event_time is not None, "the stream has no event time"
    code = WindowCode(
        keys=flow.keys,
        windows=windows,
        event_time=flow.type.event_time,
        plan=plan,
        side_outputs_late_data=settings.late_data_tag is not None,
        allowed_lateness_ms=settings.allowed_lateness_ms,
    )
    return add_aggregates(flow, name, code, is_local_first=settings.late_data_tag is None)


def _add_sessions(
    flow: Dataflow, windows: EventTimeSessionWindows, name: str, columns: tuple[Column, ...]
) -> Transformation:
    plan = analyze(flow.type.prototype, flow.keys or (only_key(),), columns)
    if not isinstance(plan, PartialAggregates):
        raise ProgramError(
            f"{name} after {flow}: sessions are aggregated in columns by count, sum, min, max and avg, and by"
            " expressions of these: for others give aggregate(...) an AggregateFunction, or use process(function,"
            " output)"
        )
    assert flow.type.event_time is not None, "the stream has no event time"
    assert windows.gap_ms is not None, "the gap of the sessions is not fixed"
    if not flow.keys:
        plan = replace(plan, key_names=())  # The results have no column for the implicit key.
    return add_aggregates(
        flow, name, SessionWindowCode(plan=plan, event_time=flow.type.event_time, gap_ms=windows.gap_ms)
    )


def _results(flow: Dataflow, settings: WindowSettings, operator: Transformation, prototype: DataFrame) -> Dataflow:
    tag = settings.late_data_tag
    late_data = None if tag is None else OwnOutputs(operator, {tag: (LATE_DATA, flow.type)})
    emitted = replace(flow.type, event_time=OF_WINDOWS).of_rows(prototype).emitted_by(operator.code)
    return flow.emitted(operator, emitted, late_data)


def process_windows(
    flow: Dataflow,
    settings: WindowSettings,
    name: str,
    combination: Combination,
    function: AnyWindowFunction | None,
    output: StructType | str,
    applied: BatchFunction | None = None,
) -> Dataflow:
    """Call a function for every window that fires; `applied` converts its results to rows with the columns `output`.

    Without a function, the combined rows are emitted unchanged. Raises `ProgramError` if the windows never fire, and
    `StreamTypeError` if `output` is invalid or a function cannot be pickled.
    """
    if settings.trigger is None and isinstance(settings.assigner, GlobalWindows):
        verb = name.partition("(")[0]
        raise ProgramError(
            f"{verb} after {flow}: GlobalWindows never end, so they need a trigger, as in"
            " .trigger(CountTrigger.of(100))"
        )
    rows = flow.type.prototype

    def code() -> tuple[DataFrame, KeyedProcessCode]:
        windowing = Windowing(
            assigner=settings.assigner,
            function=EmitElements() if function is None else function,
            row_type=row_type(rows),
            combination=combination,
            trigger=settings.trigger,
            evictor=settings.evictor,
            allowed_lateness_ms=settings.allowed_lateness_ms,
            late_data_tag=settings.late_data_tag,
        )
        reads, keys = function_inputs(flow), keys_of(rows, flow.keys or (only_key(),))
        try:
            emitted, code = keyed_process_code(reads, keys, WindowOperator(windowing), output)
        except StateDescriptorError:
            check_types(rows.schema, Use.WINDOW)
            raise
        if applied is None:
            return emitted, code
        prototype = applied_to_windows(rows, flow.keys, emitted, checked_function(applied))
        return prototype, replace(code, applied=applied)

    prototype, operator_code = try_on_prototype(name, code)
    tells_window = function is not None and settings.assigner.is_event_time()
    has_end = applied is not None or has_event_time(prototype, WINDOW_END)
    of_windows = OF_WINDOWS if tells_window and has_end else None
    return processed(flow, name, operator_code, prototype, settings.late_data_tag, of_windows)
