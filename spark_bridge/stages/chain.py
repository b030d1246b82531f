"""The operators of a vertex as a tree: who reads whom, with their code bound.

A chain begins with a source, or with an operator that reads the input gates. Windows own state by key group, so a
window aggregation stands behind a keyed edge: at the head of its chain or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

from flykka.messages.graph.job_graph import Operator
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.spark_bridge.errors import ChainError
from flykka.spark_bridge.program.code import (
    KeyByCode,
    LateRowsCode,
    LocalWindowCode,
    OperatorCode,
    SinkCode,
    SourceCode,
    TransformCode,
    WindowCode,
)
from flykka.spark_bridge.program.code_registry import CodeRegistry
from flykka.spark_bridge.program.rich_function import RichFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One operator with what reads it: operators of the chain, and outputs of the vertex.

    `name` is how the user calls the operator. `late_readers` take the late rows of windows, and none of their results.
    """

    operator: Operator
    name: str
    code: OperatorCode
    readers: tuple[Link, ...]
    outputs: tuple[ResultPartitionDescriptor, ...]
    late_readers: tuple[Link, ...] = ()

    @property
    def uid(self) -> str:
        """The uid of the operator."""
        return self.operator.ref.uid

    def walk(self) -> Iterator[Link]:
        """This link and all behind it."""
        yield self
        for reader in (*self.readers, *self.late_readers):
            yield from reader.walk()

    @property
    def only_aggregates(self) -> bool:
        """Whether rows go one way, into a local window aggregation.

        Then they may be worked on slice by slice, unless a function on the way needs to see all of a batch.
        """
        match self.code:
            case LocalWindowCode():
                return True
            case SourceCode() | TransformCode():
                return not self.outputs and len(self.readers) == 1 and self.readers[0].only_aggregates
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The tree, from its head."""

    head: Link

    @property
    def name(self) -> str:
        """The names by which the user knows the operators, for messages."""
        return " -> ".join(link.name for link in self.head.walk())

    @property
    def computing(self) -> list[str]:
        """The uids of the operators that compute what the user has written: functions, aggregates and keys."""
        computing = (TransformCode, LocalWindowCode, WindowCode)
        uids: list[str] = []
        for link in self.head.walk():
            uids += [link.uid] if isinstance(link.code, computing) else []
            keys = [] if isinstance(link.code, LocalWindowCode) else [output.key_by for output in link.outputs]
            uids += [key_by.uid for key_by in keys if key_by is not None]
        return uids

    @property
    def has_outputs(self) -> bool:
        """Whether anything leaves the vertex."""
        return any(link.outputs for link in self.head.walk())

    @property
    def computes(self) -> bool:
        """Whether anything reads what the operators make; Spark computes nothing else."""
        return self.has_outputs or bool(self.sinks)

    @property
    def sinks(self) -> tuple[tuple[Link, SinkCode], ...]:
        """The sinks of the chain."""
        return tuple((link, link.code) for link in self.head.walk() if isinstance(link.code, SinkCode))

    @property
    def event_time(self) -> str | None:
        """The event-time column, where the chain begins with a source that has one."""
        return self.head.code.source.event_time if isinstance(self.head.code, SourceCode) else None


def bound_chain(descriptor: TaskDeploymentDescriptor, registry: CodeRegistry) -> Chain:
    """The chain of an attempt, with rich functions of its own.

    Raises:
        UnboundOperatorError: an operator has no code here.
        ChainError: the operators do not form a chain that can run.
    """
    operators = descriptor.vertex.operators
    heads = [place for place, operator in enumerate(operators) if operator.input_operator is None]
    if heads != [0]:
        raise ChainError(f"the chain {descriptor.vertex.name!r} has {len(heads)} heads, not one")
    return Chain(head=_link(0, descriptor, registry))


def _link(place: int, descriptor: TaskDeploymentDescriptor, registry: CodeRegistry) -> Link:
    vertex = descriptor.vertex
    operator = vertex.operators[place]
    code = _own(registry.resolve(operator.ref))
    behind = [
        _link(reader, descriptor, registry)
        for reader, other in enumerate(vertex.operators)
        if other.input_operator == place
    ]
    link = Link(
        operator=operator,
        name=registry.name(operator.ref.uid),
        code=code,
        readers=tuple(reader for reader in behind if not isinstance(reader.code, LateRowsCode)),
        late_readers=tuple(reader for reader in behind if isinstance(reader.code, LateRowsCode)),
        outputs=tuple(output for output in descriptor.outputs if vertex.outputs[output.output] == operator.operator_id),
    )
    _check(link, is_head=place == 0)
    return link


def _own(code: OperatorCode) -> OperatorCode:
    """The code with its rich function copied: what that keeps belongs to one attempt, as in Flink to one subtask."""
    if isinstance(code, TransformCode) and isinstance(code.function, RichFunction):
        return replace(code, function=copy(code.function))
    return code


def _check(link: Link, *, is_head: bool) -> None:
    if link.late_readers and not isinstance(link.code, WindowCode):
        raise ChainError(f"{link.uid!r} has readers of late rows and is no window aggregation")
    match link.code:
        case SourceCode() | WindowCode() if not is_head:
            raise ChainError(f"{link.uid!r} must stand at the head of its chain")
        case LateRowsCode() if is_head:
            raise ChainError(f"the late rows {link.uid!r} must stand behind their windows, in one chain")
        case KeyByCode():
            raise ChainError(f"the keys {link.uid!r} belong to an edge, not into a chain")
        case SinkCode() if link.readers or link.outputs:
            raise ChainError(f"the sink {link.uid!r} has readers")
        case LocalWindowCode() if link.readers:
            raise ChainError(f"the local windows {link.uid!r} must be read over a keyed edge")
        case _:
            return
