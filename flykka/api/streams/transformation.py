"""The program as defined by the user, with one Transformation per visible operator, as in Flink.

A transformation is a description: uid, name and parallelism may change until the stream graph is built. It does not
depend on Spark, only on its code object, and remembers the line that created it.
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
    """An input of an operator. Without a strategy, rows are forwarded, or rebalanced if the parallelisms differ.

    Rows of a changelog are hashed by `changelog_keys` instead, so that rows with the same key stay in order.
    `local_code` is the part of the operator that runs before the exchange, chained to the operator that feeds it. Rows
    of a `broadcast_variable` are read by the operator's functions on request.
    """

    source: Transformation
    ship_strategy: ShipStrategy | None = None
    key_by: KeyByCode | None = None
    changelog_keys: KeyByCode | None = None
    local_code: LocalCode | None = None
    broadcast_variable: str | None = None
    call_site: CallSite = field(default_factory=call_site)


def partitioned(inputs: Iterable[Input], strategy: ShipStrategy, key_by: KeyByCode | None = None) -> tuple[Input, ...]:
    """Return the inputs with this partitioning, which replaces any earlier partitioning.

    Partitionings that were set before a union belong to its inputs, and are preserved.
    """
    return tuple(replace(each, ship_strategy=strategy, key_by=key_by, call_site=call_site()) for each in inputs)


@dataclass(slots=True, kw_only=True, eq=False)
class Transformation:
    """An operator of the program; fields that are None get the environment's defaults when the stream graph is built.

    The parallelism must not exceed `parallelism_limit`.
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
        """The user's uid, else a uid from kind and position, which changes if operators are inserted upstream."""
        return self.explicit_uid or default_uid(self.kind, self.position)

    @property
    def has_automatic_uid(self) -> bool:
        return self.explicit_uid is None

    def __str__(self) -> str:
        # Users do not know generated uids, so the name is enough.
        if self.explicit_uid is None or self.explicit_uid == self.name:
            return self.name
        return f"{self.explicit_uid} ({self.name})"


def default_uid(kind: OperatorKind, position: int) -> str:
    return f"{kind.lower().replace('_', '-')}-{position}"


def origins(inputs: tuple[Input, ...]) -> str:
    names = [str(each.source) for each in inputs]
    return names[0] if len(names) == 1 else f"the union of {' and '.join(names)}"


def leading_to(
    inputs: tuple[Input, ...], begins: Callable[[Transformation], bool] = lambda operator: False
) -> tuple[Transformation, ...]:
    """Return the operators upstream of a stream, each once and after its inputs.

    The search stops at operators for which `begins` is true; these are included, operators upstream of them are not.
    """
    ordered: dict[Transformation, None] = {}
    waiting = [(each.source, False) for each in reversed(inputs)]
    while waiting:
        operator, is_done = waiting.pop()
        if is_done:
            ordered[operator] = None
        elif operator not in ordered:
            waiting.append((operator, True))
            inputs_of = () if begins(operator) else operator.inputs
            waiting.extend((each.source, False) for each in reversed(inputs_of))
    return tuple(ordered)


def format_columns(*columns: Column | str) -> str:
    """Format columns as the user would write them, for operator names; a long list is truncated."""
    names = ", ".join(map(column_text, columns))
    return names if len(names) <= _LONGEST_LIST else names[: _LONGEST_LIST - 3] + "..."


def function_name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
