"""Makes the code of what is computed of windows, and where it can the code of a part before the exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.api.streams.program import Program, tried
from flykka.api.streams.stateless_verbs import listed, named
from flykka.api.streams.transformation import Input, Transformation, origins
from flykka.errors import ProgramError
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.operators.code import AggregateCode, KeyByCode
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.aggregates import PartialAggregates, analyze
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.program.prototype import window_function, windowed
from flykka.spark_bridge.program.trials import checked_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.output_tag import OutputTag
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.program.aggregates import AggregatePlan
    from flykka.spark_bridge.program.prototype import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregation:
    """Rows that are cut into windows, before it is said what is computed of them. `rows` is their prototype."""

    inputs: tuple[Input, ...]
    rows: DataFrame
    event_time: EventTime
    keys: tuple[Column | str, ...]
    windows: EventTimeWindows | EventTimeSessionWindows
    late_data_tag: OutputTag | None = None
    allowed_lateness_ms: int = 0

    def add_to(self, program: Program, columns: tuple[Column, ...]) -> tuple[Transformation, DataFrame]:
        """Add the aggregation to a program; its operator, and the prototype of what it makes.

        Raises:
            ProgramError: sessions cannot be aggregated so.
            StreamTypeError: a column is no aggregate, or does not fit the rows.
        """
        name = f"aggregate({listed(*columns)})"
        prototype = tried(name, lambda: windowed(self.rows, self.keys, columns))
        if isinstance(self.windows, EventTimeSessionWindows):
            return self._add_sessions(program, name, columns, self.windows), prototype
        return self._add(program, name, analyze(self.rows, self.keys, columns), self.windows), prototype

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
        self, program: Program, name: str, columns: tuple[Column, ...], windows: EventTimeSessionWindows
    ) -> Transformation:
        plan = analyze(self.rows, self.keys or (only_key(),), columns)
        if not isinstance(plan, PartialAggregates):
            raise ProgramError(
                f"{name} after {origins(self.inputs)}: sessions are aggregated in columns by count, sum, min, max and"
                " avg, and by expressions of these: for others give aggregate(...) an AggregateFunction, or use"
                " process(function, output)"
            )
        assert windows.gap_ms is not None, "a gap that a function tells is refused before"
        if not self.keys:
            plan = replace(plan, key_names=())  # Results have no column of the key that nobody has named.
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
        return add_aggregates(program, name, code, self.inputs, is_local_first=self.late_data_tag is None)


def add_aggregates(
    program: Program, name: str, code: AggregateCode, inputs: tuple[Input, ...], *, is_local_first: bool = True
) -> Transformation:
    """Add aggregates of keyed rows, a part of which is computed before the exchange where it `is_local_first`."""
    made = Transformation(kind=code.kind, position=program.next_position, name=name, code=code, inputs=inputs)
    if is_local_first:
        keys, local_code = KeyByCode(columns=code.plan.keys, of_state=True), LocalAggregateCode(of=code)
        made.inputs = tuple(
            replace(each, key_by=None if each.key_by is None else keys, local_code=local_code) for each in inputs
        )
    program.add(made)
    return made
