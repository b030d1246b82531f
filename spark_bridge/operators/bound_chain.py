"""The operators of a vertex as a tree in which each operator points to its readers, with their code bound.

A chain begins with a source, or with an operator that reads the input gates. Keyed state is owned by key group, so an
operator with keyed state must follow a keyed edge, at the head of its chain.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.spark_bridge.errors import ChainError
from flykka.spark_bridge.operators.code import KeyByCode, Link, OperatorCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.program.rich_function import RichFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundChain:
    head: Link

    @property
    def name(self) -> str:
        return " -> ".join(link.name for link in self.head.walk())

    @property
    def computing(self) -> list[str]:
        """Return the uids of the operators that compute the user's code: functions, aggregates and keys."""
        uids: list[str] = []
        for link in self.head.walk():
            uids += [link.uid] if link.code.is_computed else []
            keys = [] if link.code.aggregates_slices else [output.key_by for output in link.outputs]
            uids += [key_by.uid for key_by in keys if key_by is not None]
        return uids

    @property
    def computes(self) -> bool:
        """True if the output of the operators has a reader. Without a reader Spark computes nothing."""
        return any(link.outputs or link.code.kind is OperatorKind.SINK for link in self.head.walk())

    @property
    def event_time(self) -> str | None:
        return self.head.code.source.event_time if isinstance(self.head.code, SourceCode) else None


def bound_chain(descriptor: TaskDeploymentDescriptor, registry: CodeRegistry) -> BoundChain:
    """Return the chain of an attempt, in which every rich function is a copy.

    Raises:
        UnboundOperatorError: no code is bound to an operator.
        ChainError: the operators do not form a valid chain.
    """
    operators = descriptor.vertex.operators
    heads = [place for place, operator in enumerate(operators) if operator.input_operator is None]
    if heads != [0]:
        raise ChainError(f"the chain {descriptor.vertex.name!r} has {len(heads)} heads, not one")
    return BoundChain(head=_link(0, descriptor, registry))


def _link(place: int, descriptor: TaskDeploymentDescriptor, registry: CodeRegistry) -> Link:
    vertex = descriptor.vertex
    operator = vertex.operators[place]
    code = registry.resolve(operator.ref)
    if isinstance(code, KeyByCode):
        raise ChainError(f"the key_by {operator.ref.uid!r} belongs to an edge, not to a chain")
    behind = [
        _link(reader, descriptor, registry)
        for reader, other in enumerate(vertex.operators)
        if other.input_operator == place
    ]
    link = Link(
        operator=operator,
        name=registry.name(operator.ref.uid),
        description=registry.describe(operator.ref.uid),
        user_line=registry.user_line(operator.ref.uid),
        code=_own(code),
        readers=tuple(behind),
        outputs=tuple(output for output in descriptor.outputs if vertex.outputs[output.output] == operator.operator_id),
    )
    _check(link, is_head=place == 0)
    return link


def _own(code: OperatorCode) -> OperatorCode:
    """Copy the code's rich function, whose attributes belong to one attempt, as in Flink to one subtask."""
    if isinstance(code, TransformCode) and isinstance(code.function, RichFunction):
        return replace(code, function=copy(code.function))
    return code


def _check(link: Link, *, is_head: bool) -> None:
    code, uid = link.code, link.uid
    if code.is_head and not is_head:
        raise ChainError(f"{uid!r} must stand at the head of its chain")
    if code.reads_side_output is not None and is_head:
        raise ChainError(f"the side output {uid!r} must follow the operator that has it, in the same chain")
    for reader in link.readers:
        side = reader.code.reads_side_output
        if side is not None and side not in code.side_outputs:
            raise ChainError(f"{uid!r} has no side output {side!r}, which {reader.uid!r} reads")
    if code.kind is OperatorKind.SINK and (link.readers or link.outputs):
        raise ChainError(f"the sink {uid!r} has readers")
    if code.aggregates_slices and link.readers:
        raise ChainError(f"the local aggregates {uid!r} must be read over a keyed edge")
