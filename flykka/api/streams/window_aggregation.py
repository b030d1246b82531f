"""Makes the code of what is computed of windows, and where it can the code of a part before the exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.api.streams.output_tag import OutputTag
from flykka.api.streams.program import Program, tried
from flykka.api.streams.stateless_verbs import listed, named
from flykka.api.streams.transformation import Input, Transformation, origins
from flykka.errors import ProgramError, StreamTypeError
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.operators.code import AggregateCode, KeyByCode, LocalAggregateCode, WindowCode
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.program.aggregates import PartialAggregates, analyze
from flykka.spark_bridge.program.prototype import window_function, windowed
from flykka.spark_bridge.program.trials import checked_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.stream_type import StreamType
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.program.aggregates import AggregatePlan
    from flykka.spark_bridge.program.prototype import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregation:
    """Rows that are cut into windows, before it is said what is computed of them. `rows` is their prototype.

    Without keys there is one subtask.
    """

    inputs: tuple[Input, ...]
    rows: DataFrame
    event_time: EventTime
    keys: tuple[Column | str, ...]
    windows: EventTimeWindows | EventTimeSessionWindows
    late_data_tag: OutputTag | None = None
    allowed_lateness_ms: int = 0

    @classmethod
    def of(
        cls,
        inputs: tuple[Input, ...],
        row_type: StreamType,
        keys: tuple[Column | str, ...],
        assigner: PeriodicEventTimeWindows | EventTimeSessionWindows,
    ) -> WindowAggregation:
        """Cut rows into windows of event time.

        Raises:
            StreamTypeError: the stream has no event time.
        """
        if row_type.event_time is None:
            raise StreamTypeError(
                f"{origins(inputs)} gives no event time to window by: its source has no timestamp column or no"
                " watermarks, or an operation has dropped or renamed the column"
            )
        rows, event_time = row_type.prototype, row_type.event_time
        return cls(inputs=inputs, rows=rows, event_time=event_time, keys=keys, windows=assigner)

    def with_late_data_tag(self, tag: OutputTag) -> WindowAggregation:
        """The same, with a side output for rows that come too late. Raises `ProgramError` where `tag` is none."""
        if not isinstance(tag, OutputTag):
            raise ProgramError(f"side_output_late_data takes an OutputTag, such as OutputTag('late'), not {tag!r}")
        return replace(self, late_data_tag=tag)

    def with_allowed_lateness(self, lateness: Duration) -> WindowAggregation:
        """The same with windows that are kept so long behind their end. Raises `DurationError`: it is no duration."""
        return replace(self, allowed_lateness_ms=duration_ms(lateness, "allowed lateness"))

    def add_to(self, program: Program, columns: tuple[Column, ...]) -> tuple[Transformation, DataFrame]:
        """Add the aggregation to a program; its operator, and the prototype of what it makes.

        Raises:
            ProgramError: there is no column.
            StreamTypeError: a column is no aggregate, or does not fit the rows.
        """
        if not columns:
            raise ProgramError(f"the window aggregation after {origins(self.inputs)} needs at least one column")
        name = f"aggregate({listed(*columns)})"
        prototype = tried(name, lambda: windowed(self.rows, self.keys, columns))
        plan = analyze(self.rows, self.keys, columns)
        if isinstance(self.windows, EventTimeSessionWindows):
            return self._add_sessions(program, name, plan, self.windows), prototype
        return self._add(program, name, plan, self.windows), prototype

    def add_function(
        self, program: Program, function: Callable[[DataFrame], DataFrame]
    ) -> tuple[Transformation, DataFrame]:
        """Add a function of all rows of the windows that fire, as `add_to`.

        Raises:
            StreamTypeError: it does not fit the rows, returns no DataFrame, or is none of DataFrames.
        """
        name = f"apply({named(function)})"
        prototype, plan = tried(name, lambda: window_function(self.rows, self.keys, checked_function(function)))
        assert not isinstance(self.windows, EventTimeSessionWindows), "functions of sessions are refused before"
        return self._add(program, name, plan, self.windows), prototype

    def _add_sessions(
        self, program: Program, name: str, plan: AggregatePlan, windows: EventTimeSessionWindows
    ) -> Transformation:
        if not isinstance(plan, PartialAggregates):
            raise ProgramError(
                f"{name} after {origins(self.inputs)}: sessions are aggregated in columns by count, sum, min, max and"
                " avg, and by expressions of these: for others give aggregate(...) an AggregateFunction, or use"
                " process(ProcessWindowFunction, output)"
            )
        assert windows.gap_ms is not None, "a gap that a function tells is refused before"
        code = SessionWindowCode(plan=plan, event_time=self.event_time, gap_ms=windows.gap_ms)
        return add_aggregates(program, name, code, self.inputs)

    def _add(self, program: Program, name: str, plan: AggregatePlan, windows: EventTimeWindows) -> Transformation:
        code = WindowCode(
            keys=self.keys,
            windows=windows,
            event_time=self.event_time,
            plan=plan,
            side_outputs_late_data=self.late_data_tag is not None,
            allowed_lateness_ms=self.allowed_lateness_ms,
        )
        made = add_aggregates(program, name, code, self.inputs, is_local_first=self.late_data_tag is None)
        if not self.keys:
            made.parallelism_limit = 1
        return made


def add_aggregates(
    program: Program, name: str, code: AggregateCode, inputs: tuple[Input, ...], *, is_local_first: bool = True
) -> Transformation:
    """Add aggregates of keyed rows, a part of which is computed before the exchange where it `is_local_first`."""
    made = Transformation(kind=code.kind, position=program.next_position, name=name, code=code, inputs=inputs)
    if is_local_first:
        keys = KeyByCode(columns=code.plan.keys, of_state=True)
        made.inputs = tuple(each if each.key_by is None else replace(each, key_by=keys) for each in inputs)
        made.local_code = LocalAggregateCode(of=code)
    program.add(made)
    return made
