"""Dataflow: the rows at one point of a program, wrapped by each stream class, which adds its methods.

Functions that add operators take dataflows and return the dataflow that the operator emits. They do not depend on
stream classes, and a stream can be created from a dataflow alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.actors.machines.state.schema_evolution import ddl_name
from flykka.api.streams.program import check_one_program, try_on_prototype
from flykka.api.streams.stream_type import APPEND_ONLY, Changelog, StreamType
from flykka.api.streams.transformation import Input, Transformation, format_columns, origins, partitioned
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.connectors.dataset import CacheCode
from flykka.spark_bridge.operators.code import AggregateCode, KeyByCode
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.program.prototype import key_schema
from flykka.spark_bridge.program.trials import check_union

if TYPE_CHECKING:
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import SideOutputs
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorCode
    from flykka.spark_bridge.program.prototype import Column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataflow:
    """Rows of a program that operators can read. The `str` of a dataflow names the origin of the rows, for messages.

    `inputs` are the operators that emit the rows, several for a union, each with the partitioning for the next
    operator. `keys` are the columns by which the rows are partitioned, empty without `key_by`. Only the dataflow that
    an operator returns has `side_outputs`. Operators that read the rows have at most `parallelism_limit` subtasks.
    """

    program: Program
    inputs: tuple[Input, ...]
    type: StreamType
    keys: tuple[Column | str, ...] = ()
    side_outputs: SideOutputs | None = None
    parallelism_limit: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _ordered(self.inputs, self.type.changelog))

    def __str__(self) -> str:
        return origins(self.inputs)

    @property
    def operator(self) -> Transformation:
        """The single operator that emits these rows.

        Raises:
            ProgramError: these rows have no operator settings, because they are united, partitioned or cached.
        """
        if len(self.inputs) > 1:
            raise ProgramError(
                f"{self} is not an operator and has no settings: set them on the united streams, or on the readers"
                " of the union"
            )
        strategy = self.inputs[0].ship_strategy
        if strategy is not None:
            raise ProgramError(
                f"{self} is partitioned already and has no settings: set them before {strategy.lower()}, or on"
                " the readers of the stream"
            )
        operator = self.inputs[0].source
        if isinstance(operator.code, CacheCode):
            raise ProgramError(
                f"{operator.name!r} is read by several jobs and has no settings: set them before cache(), or on"
                " the readers of the stream"
            )
        return operator

    def add_operator(self, name: str, code: OperatorCode, inputs: tuple[Input, ...] | None = None) -> Transformation:
        # Only the head of a chain receives watermarks and timers. An aggregation always follows an exchange.
        is_head = code.is_head and not isinstance(code, AggregateCode)
        operator = Transformation(
            kind=code.kind,
            position=self.program.next_position,
            name=name,
            code=code,
            inputs=self.inputs if inputs is None else inputs,
            chaining=ChainingStrategy.HEAD if is_head else ChainingStrategy.ALWAYS,
            parallelism_limit=self.parallelism_limit,
        )
        self.program.add(operator)
        return operator

    def emitted(
        self, operator: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> Dataflow:
        inputs = (Input(source=operator),)
        return Dataflow(program=self.program, inputs=inputs, type=row_type, side_outputs=side_outputs)

    def through(self, name: str, code: OperatorCode, row_type: StreamType) -> Dataflow:
        return self.emitted(self.add_operator(name, code), row_type.emitted_by(code))

    def typed(self, changelog: Changelog, event_time: EventTime | None = None) -> Dataflow:
        """Return the same rows with another changelog and event time, without adding an operator."""
        row_type = replace(self.type, event_time=event_time, changelog=changelog)
        return Dataflow(program=self.program, inputs=self.inputs, type=row_type)

    def partitioned(self, strategy: ShipStrategy) -> Dataflow:
        """Return the same rows with this partitioning, which replaces any earlier partitioning."""
        return Dataflow(program=self.program, inputs=partitioned(self.inputs, strategy), type=self.type)

    def in_one_subtask(self) -> Dataflow:
        return replace(self.partitioned(ShipStrategy.GLOBAL), parallelism_limit=1)

    def keyed(self, columns: tuple[Column | str, ...]) -> Dataflow:
        """Return the same rows, partitioned by `columns`.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the rows.
        """
        if not columns:
            raise ProgramError(f"key_by after {self} needs at least one column")
        try_on_prototype(
            f"key_by({format_columns(*columns)}) after {self}", lambda: key_schema(self.type.prototype, columns)
        )
        inputs = partitioned(self.inputs, ShipStrategy.HASH, KeyByCode(columns=columns))
        return Dataflow(program=self.program, inputs=inputs, type=self.type, keys=columns)

    def united(self, others: tuple[Dataflow, ...]) -> Dataflow:
        """Return the union of all rows, with the event time and changelog that they have in common.

        Raises:
            ProgramError: a dataflow belongs to another program.
            StreamTypeError: the columns differ in name, type or order.
        """
        for other in others:
            self._check_unites(other)
        flows = (self, *others)
        event_times = {flow.type.event_time for flow in flows}
        changelogs = {flow.type.changelog for flow in flows}
        row_type = replace(
            self.type,
            event_time=event_times.pop() if len(event_times) == 1 else None,
            changelog=changelogs.pop() if len(changelogs) == 1 else APPEND_ONLY,
        )
        inputs = tuple(each for flow in flows for each in flow.inputs)
        return Dataflow(program=self.program, inputs=inputs, type=row_type)

    def _check_unites(self, other: Dataflow) -> None:
        what = f"union of {self} with {other}"
        check_one_program(what, self.program, other.program)
        try_on_prototype(what, lambda: check_union(self.type.prototype, other.type.prototype))


def _ordered(inputs: Iterable[Input], changelog: Changelog) -> tuple[Input, ...]:
    """Set the changelog keys of the inputs, so that rows with equal keys stay in order if the parallelism changes."""
    keys = changelog.keys
    columns = None if keys is None else tuple(map(ddl_name, keys)) or (only_key(),)
    code = None if columns is None else KeyByCode(columns=columns)
    return tuple(replace(each, changelog_keys=code) for each in inputs)
