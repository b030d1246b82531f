"""The windows of a GROUP BY, reconstructed from Spark's analysis of `window(...)` and `session_window(...)`.

Spark computes the window of each row in a node below the aggregate (several windows if they slide). Stream operators
assign windows themselves, so that node is skipped, and the windows are read from its expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.api.table.refusals import RefusedError
from flykka.spark_bridge.functions.times import MICROS_PER_MS, in_ms
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
    PeriodicEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

if TYPE_CHECKING:
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode

_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRows:
    """The windows of an aggregate: rows of `source` are assigned by `time`; `expression` is the grouping by window.

    `nodes` are Spark's nodes, top-down, that compute the window; the last node reads the source.
    """

    expression: Expression
    source: PlanNode
    nodes: tuple[PlanNode, ...]
    time: Expression
    windows: PeriodicEventTimeWindows | EventTimeSessionWindows

    @property
    def panes(self) -> TumblingEventTimeWindows | None:
        """Windows over the event time of results that put all results of one window together; None for sessions."""
        if isinstance(self.windows, EventTimeSessionWindows):
            return None
        size, slide, offset = self.windows.size_ms, self.windows.slide_ms, self.windows.offset_ms
        return TumblingEventTimeWindows.of(slide, (offset + size) % slide)

    @property
    def size_ms(self) -> int | None:
        return None if isinstance(self.windows, EventTimeSessionWindows) else self.windows.size_ms


def cut_rows(aggregate: PlanNode) -> CutRows | None:
    """Return the windows that an aggregate groups by; None without windows, or if a subquery has computed them.

    Raises:
        RefusedError: the windows are not supported on streams.
    """
    for expression in aggregate.part("groupingExpressions"):
        if not expression.is_session and "spark.timeWindow" not in expression.marks:
            continue
        made = _made(aggregate, expression)
        if made is None:
            return None
        nodes, struct = made
        _, start, _, end = struct.children
        return CutRows(
            expression=expression,
            source=nodes[-1].children[0],
            nodes=nodes,
            time=_time(start),
            windows=_sessions(end, expression) if expression.is_session else _periodic(start, end, expression),
        )
    return None


def _made(aggregate: PlanNode, window: Expression) -> tuple[tuple[PlanNode, ...], Expression] | None:
    """Return the nodes down to the node that computes the windows, and the window struct; None without such a node."""
    node = aggregate.children[0]
    nodes = [node]
    while node.kind == "Filter":
        node = node.children[0]
        nodes.append(node)
    if node.kind == "Project":
        computed = node.expressions
    elif node.kind == "Expand":
        computed = node.first_projection
    else:
        return None
    for attribute, value in zip(node.output, computed, strict=True):
        struct = value.children[0] if value.kind == "Alias" else value
        if attribute.id == window.attribute.id and struct.kind == "CreateNamedStruct":
            return tuple(nodes), struct
    return None


def _time(start: Expression) -> Expression:
    conversions = [each for each in start.walk() if each.kind == "PreciseTimestampConversion"]
    return conversions[-1].children[0]


def _periodic(start: Expression, end: Expression, window: Expression) -> PeriodicEventTimeWindows:
    remainder = next(each for each in start.walk() if each.kind == "Remainder")
    moved, slide = remainder.children
    size = next(each for each in end.walk() if each.kind == "Add").children[1]
    size_ms, slide_ms, offset_ms = (_ms(int(each.value), window) for each in (size, slide, moved.children[1]))
    if size_ms == slide_ms:
        return TumblingEventTimeWindows.of(size_ms, offset_ms)
    return SlidingEventTimeWindows.of(size_ms, slide_ms, offset_ms)


def _ms(micros: int, window: Expression) -> int:
    if micros % MICROS_PER_MS:
        raise RefusedError("the bounds of windows must be whole milliseconds", window.position)
    return in_ms(micros)


def _sessions(end: Expression, window: Expression) -> EventTimeSessionWindows:
    added = next((each for each in end.walk() if len(each.children) == 2), None)
    gap = added.children[1] if added is not None else None
    if gap is None or not gap.is_constant:
        raise RefusedError(
            "the gap of a session_window must be the same for all rows, such as '5 minutes'", window.position
        )
    months, days, micros = gap.interval
    if months:
        raise RefusedError("the gap of a session_window must be a length of time, without months", window.position)
    return EventTimeSessionWindows.with_gap(_ms(days * _MICROS_PER_DAY + micros, window))
