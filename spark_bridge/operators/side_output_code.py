"""The code that passes on the rows of a side output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.stateless import SideOutputOperator

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.rows.materialise import Slices


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputCode(OperatorCode):
    """Passes on the rows of a side output of the operator that it is chained to."""

    kind = OperatorKind.STATELESS

    tag: str

    @property
    def reads_side_output(self) -> str:
        return self.tag

    @property
    def fingerprint(self) -> str:
        return "side_output"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return SideOutputOperator(context, self)
