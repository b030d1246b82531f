"""Makes the code of a windowed aggregation, and where it can the code of a part before the exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.api.streams.program import Program, tried
from flykka.api.streams.stateless_verbs import listed
from flykka.api.streams.transformation import Input, Transformation
from flykka.spark_bridge.operators.code import AggregateCode, KeyByCode, LocalAggregateCode, WindowCode
from flykka.spark_bridge.program.aggregates import analyze
from flykka.spark_bridge.program.prototype import windowed

if TYPE_CHECKING:
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.output_tag import OutputTag
    from flykka.spark_bridge.program.prototype import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregation:
    """Keyed rows that are cut into windows, before it is said what is computed of them. `rows` is their prototype."""

    inputs: tuple[Input, ...]
    rows: DataFrame
    time_column: str
    keys: tuple[Column | str, ...]
    windows: EventTimeWindows
    late_data_tag: OutputTag | None = None

    def add_to(self, program: Program, columns: tuple[Column, ...]) -> tuple[Transformation, DataFrame]:
        """Add the aggregation to a program; its operator, and the prototype of what it makes.

        Raises:
            StreamTypeError: a column is no aggregate, or does not fit the rows.
        """
        name = f"aggregate({listed(*columns)})"
        prototype = tried(name, lambda: windowed(self.rows, self.keys, columns))
        code = WindowCode(
            keys=self.keys,
            windows=self.windows,
            time_column=self.time_column,
            aggregates=columns,
            plan=analyze(self.rows, self.keys, columns),
            side_outputs_late_data=self.late_data_tag is not None,
        )
        made = add_aggregates(program, name, code, self.inputs, is_local_first=self.late_data_tag is None)
        return made, prototype


def add_aggregates(
    program: Program, name: str, code: AggregateCode, inputs: tuple[Input, ...], *, is_local_first: bool = True
) -> Transformation:
    """Add aggregates of keyed rows, a part of which is computed before the exchange where it `is_local_first`."""
    made = Transformation(kind=code.kind, position=program.next_position, name=name, code=code, inputs=inputs)
    if is_local_first:
        keys = KeyByCode(columns=code.plan.keys, of_state=True)
        made.inputs = tuple(replace(each, key_by=keys) for each in inputs)
        made.local_code = LocalAggregateCode(of=code)
    program.add(made)
    return made
