"""The declared program: one Transformation per operator that the user sees, as in Flink.

A transformation is a note, not an operator: `uid`, name and parallelism may still be set on it until the stream graph
is made of it. It knows nothing of Spark but the code object that it hands on, and remembers the line that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.messages.graph.job_graph import (
    MonotonyViolationHandler,
    OperatorKind,
    ResourceSpec,
    ShipStrategy,
    WatermarkAlignment,
)
from flykka.spark_bridge.program.call_site import CallSite, call_site
from flykka.views.text.column_text import column_text

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.code import KeyByCode, LocalCode, OperatorCode
    from flykka.spark_bridge.program.prototype import Column

_LONGEST_LIST = 60


@dataclass(slots=True, kw_only=True, eq=False)
class Input:
    """An input of an operator. Without a strategy: forward, or rebalance where the parallelisms differ.

    Rows of one key of a changelog go to one subtask instead, for they must not overtake each other: its keys are
    `changelog_keys`. `local_code` is the part of the operator that runs before the exchange, chained to what feeds it.
    Rows of a `broadcast_variable` are read by functions of the operator, which ask for it.
    """

    source: Transformation
    ship_strategy: ShipStrategy | None = None
    key_by: KeyByCode | None = None
    changelog_keys: KeyByCode | None = None
    local_code: LocalCode | None = None
    broadcast_variable: str | None = None
    call_site: CallSite = field(default_factory=call_site)


def partitioned(inputs: Iterable[Input], strategy: ShipStrategy, key_by: KeyByCode | None = None) -> tuple[Input, ...]:
    """Return the same rows, to be shipped so to all readers; the last strategy named holds.

    A union is its inputs, so each of them keeps what was said before they were united.
    """
    return tuple(replace(each, ship_strategy=strategy, key_by=key_by, call_site=call_site()) for each in inputs)


@dataclass(slots=True, kw_only=True, eq=False)
class Transformation:
    """An operator of the program; fields that are None are decided by the environment when the stream graph is made.

    No more subtasks than `parallelism_limit` may be asked for.
    """

    kind: OperatorKind
    position: int
    name: str
    code: OperatorCode
    inputs: tuple[Input, ...] = ()
    publishes_per_checkpoint: bool = False
    watermark_delay_ms: int | None = None
    idle_timeout_ms: int | None = None
    quiet_period_ms: int | None = None
    watermark_alignment: WatermarkAlignment | None = None
    on_monotony_violation: MonotonyViolationHandler = MonotonyViolationHandler.IGNORE
    punctuated_watermarks: bool = False
    explicit_uid: str | None = None
    parallelism: int | None = None
    parallelism_limit: int | None = None
    max_parallelism: int | None = None
    slot_sharing_group: str | None = None
    co_location_group_key: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    uid_hash: str | None = None
    resources: ResourceSpec = field(default_factory=ResourceSpec)
    call_site: CallSite = field(default_factory=call_site)

    @property
    def uid(self) -> str:
        """The uid the user gave, else one of kind and position, which moves when operators are put in before it."""
        return self.explicit_uid or default_uid(self.kind, self.position)

    @property
    def has_automatic_uid(self) -> bool:
        """True if the user gave no uid."""
        return self.explicit_uid is None

    def __str__(self) -> str:
        # A uid that was not given is not known to the user.
        if self.explicit_uid is None or self.explicit_uid == self.name:
            return self.name
        return f"{self.explicit_uid} ({self.name})"


def default_uid(kind: OperatorKind, position: int) -> str:
    """The uid of an operator that was given none."""
    return f"{kind.lower().replace('_', '-')}-{position}"


def origins(inputs: tuple[Input, ...]) -> str:
    """The origins of a stream, for messages."""
    names = [str(each.source) for each in inputs]
    return names[0] if len(names) == 1 else f"the union of {' and '.join(names)}"


def leading_to(
    inputs: tuple[Input, ...], begins: Callable[[Transformation], bool] = lambda made: False
) -> tuple[Transformation, ...]:
    """The operators before a stream, each once, inputs before what they feed.

    What leads to one that `begins` is left out.
    """
    ordered: dict[Transformation, None] = {}
    waiting = [(each.source, False) for each in reversed(inputs)]
    while waiting:
        made, is_done = waiting.pop()
        if is_done:
            ordered[made] = None
        elif made not in ordered:
            waiting.append((made, True))
            inputs_of = () if begins(made) else made.inputs
            waiting.extend((each.source, False) for each in reversed(inputs_of))
    return tuple(ordered)


def listed(*columns: Column | str) -> str:
    """Columns as the user would write them, for names of operators; a long list is cut short."""
    names = ", ".join(map(column_text, columns))
    return names if len(names) <= _LONGEST_LIST else names[: _LONGEST_LIST - 3] + "..."


def function_name(function: object) -> str:
    """The name of a function, or of the class of a callable, for names of operators."""
    return getattr(function, "__name__", type(function).__name__)
