"""The code of functions that users write row by row: with keys and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flykka.actors.machines.state.schema_evolution import described
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.operators.checkpointed_functions import CheckpointedProcessOperator
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.keyed_rows_code import with_keys
from flykka.spark_bridge.operators.process import ProcessOperator
from flykka.spark_bridge.operators.spark_keyed_batches import keyed_process_operator
from flykka.spark_bridge.program.applied import applied

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from flykka.messages.state.handles import OperatorStateSchema
    from flykka.spark_bridge.functions.metric_group import MetricKind
    from flykka.spark_bridge.functions.operator_coordinator import CoordinatedFunction
    from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.materialise import Slices
    from flykka.spark_bridge.worker.inputs import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCode(OperatorCode):
    """A function of each row of its `inputs`, which emits rows of `emitted`, and of the side outputs that are read.

    The function `sees_watermarks` where it has a `process_watermark` that is not the base's. The operator state has
    `broadcast_states` beside those that the function registers. One with a coordinator is `coordinated`, as it was
    written down.
    """

    kind = OperatorKind.PROCESS
    is_head = True
    is_computed = True

    pickled: bytes = field(repr=False)
    inputs: Inputs
    emitted: tuple[StructField, ...]
    side: tuple[SideOutput, ...] = ()
    sees_watermarks: bool = False
    metrics: tuple[tuple[str, MetricKind], ...] = ()
    operator_state: tuple[OperatorStateSchema, ...] = ()
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    coordinated: CoordinatedFunction | None = None

    @property
    def has_coordinator(self) -> bool:
        return self.coordinated is not None

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """The ids of the tags that are read."""
        return tuple(side.tag for side in self.side)

    @property
    def state_schema(self) -> StateSchema | None:
        return StateSchema(operator_state=self.operator_state) if self.operator_state else None

    @property
    def fingerprint(self) -> str:
        return f"process({described(self.operator_state)})" if self.operator_state else "process"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return (CheckpointedProcessOperator if self.operator_state else ProcessOperator)(context, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedProcessCode(ProcessCode):
    """A function with keyed state and timers. `keys` are those of the edge before it.

    `expiring_states` are the pickled descriptors of states with time-to-live, None where there are none. What the
    function emits of a batch is given to the function of DataFrames that is `applied` to it, where there is one.
    """

    kind = OperatorKind.KEYED_PROCESS

    keys: tuple[Column | str, ...]
    key_fields: tuple[StructField, ...]
    state_fields: tuple[StructField, ...]
    state_schema: StateSchema
    expiring_states: bytes | None = field(default=None, repr=False)
    applied: Callable[[DataFrame], DataFrame] | None = None

    @property
    def fingerprint(self) -> str:
        keys = ", ".join(field.dataType.simpleString() for field in self.key_fields)
        lists = f"; {described(self.operator_state)}" if self.operator_state else ""
        return f"keyed_process(keys: {keys}; state: {self.state_schema.columns}{lists})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return keyed_process_operator(context, self)

    def keyed(self, rows: DataFrame) -> DataFrame:
        return with_keys(rows, self.key_fields, self.keys)

    def results(self, emitted: DataFrame) -> DataFrame:
        """The rows as they are emitted, or those that are made of them."""
        return emitted if self.applied is None else applied(self.applied, emitted)
