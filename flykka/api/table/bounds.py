"""Bounds of row numbers: how many first rows each ROW_NUMBER() of a query must keep.

A bound in a WHERE clause is pushed down to the window function. The bound passes a node only if filtering above and
below the node gives the same result, and only if the rows below have no other reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from flykka.api.table.relation import IsNumber, Role
from flykka.spark_bridge.sql.plan_node import COMPUTED

if TYPE_CHECKING:
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode

Limits = Mapping[int, int]
"""The greatest row number that can pass the conditions, by id of the row-number column."""

_END = 2**63
_ANY = range(-_END, _END)
_RANGES: Mapping[str, Callable[[int], range]] = {
    "LessThanOrEqual": lambda limit: range(-_END, limit + 1),
    "LessThan": lambda limit: range(-_END, limit),
    "EqualTo": lambda number: range(number, number + 1),
    "GreaterThanOrEqual": lambda first: range(first, _END),
    "GreaterThan": lambda last: range(last + 1, _END),
}
_MIRRORED = {
    "LessThanOrEqual": "GreaterThanOrEqual",
    "LessThan": "GreaterThan",
    "EqualTo": "EqualTo",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "GreaterThan": "LessThan",
}
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_ARITHMETIC = frozenset({"Literal", "Cast", "UnaryMinus", "Add", "Subtract", "Multiply"})
_FILTERED_BELOW = frozenset({"SubqueryAlias", "View", "Distinct", "Generate", "CTERelationDef"})
"""Nodes that output the columns of their inputs, so that a filter on these columns may be moved below the node."""

_SIDES_FILTERED: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "INNER": ((0, 1), (0, 1)),
    "CROSS": ((0, 1), (0, 1)),
    "LEFT OUTER": ((0,), (1,)),
    "RIGHT OUTER": ((1,), (0,)),
    "LEFT SEMI": ((0,), ()),
    "LEFT ANTI": ((0,), ()),
}
"""For each join type: indexes of the children below which a WHERE filter may be moved, and the same for an ON
filter.
"""


def bounds_of(plan: PlanNode, is_temporal: Callable[[PlanNode], bool]) -> Limits:
    """Return the greatest row number that is needed, by column id of each window function.

    A common table expression gets the greatest bound of its readers, and no bound if any reader has none. `is_temporal`
    returns true for temporal joins.
    """
    walk = _BoundsWalk(is_temporal)
    walk.go(plan, {})
    return walk.bounds


def is_implied(condition: Expression, roles: Mapping[int, Role]) -> bool:
    """True if a condition only bounds row numbers, and every number that the operator emits passes."""
    for each in condition.conjuncts():
        column, numbers = _numbers(each)
        role = roles.get(column)
        if not isinstance(role, IsNumber) or not (numbers.start <= 1 and role.limit < numbers.stop):
            return False
    return True


def first_alone(condition: Expression, roles: Mapping[int, Role]) -> int | None:
    """Return the id of a row-number column of which the condition accepts only the number 1, or None."""
    for each in condition.conjuncts():
        column, numbers = _numbers(each)
        role = roles.get(column)
        if isinstance(role, IsNumber) and role.limit > 1 and numbers.start <= 1 and numbers.stop == 2:
            return column
    return None


class _BoundsWalk:
    def __init__(self, is_temporal: Callable[[PlanNode], bool]) -> None:
        self.bounds: dict[int, int] = {}
        self._is_temporal = is_temporal
        self._readers: dict[int, list[list[int | None]]] = {}

    def go(self, node: PlanNode, limits: Limits) -> None:
        match node.kind:
            case "WithCTE":
                self._common_tables(node, limits)
            case "CTERelationRef":
                readers = self._readers.setdefault(int(node.java.cteId()), [])
                readers.append([limits.get(each.id) for each in node.output])
            case "Filter":
                (condition,) = node.expressions
                self.go(node.children[0], _both(limits, _limits(condition.conjuncts())))
            case "Project":
                self.go(node.children[0], _renamed(node, limits))
            case "Window":
                made = {each.attribute.id for each in node.part("windowExpressions")}
                self.bounds |= {column: limit for column, limit in limits.items() if column in made}
                self.go(node.children[0], {})
            case "Aggregate":
                keys = {each.column_id for each in node.part("groupingExpressions")}
                self.go(node.children[0], {column: limits[column] for column in keys & limits.keys()})
            case "Union":
                for child in node.children:
                    pairs = zip(child.output, node.output, strict=True)
                    self.go(child, {own.id: limits[each.id] for own, each in pairs if each.id in limits})
            case "Join":
                self._join(node, limits)
            case kind:
                for child in node.children:
                    self.go(child, limits if kind in _FILTERED_BELOW else {})

    def _common_tables(self, node: PlanNode, limits: Limits) -> None:
        *tables, query = node.children
        self.go(query, limits)
        # Readers are visited before the common tables that they read.
        for table in reversed(tables):
            columns = zip(*self._readers.get(int(table.java.id()), ()), strict=True)
            asked = zip(table.output, columns, strict=False)
            known = {
                column.id: [each for each in bounds if each is not None] for column, bounds in asked if all(bounds)
            }
            self.go(table, {column: max(bounds) for column, bounds in known.items()})

    def _join(self, node: PlanNode, limits: Limits) -> None:
        by_where, by_on = _SIDES_FILTERED.get(node.join_type, ((), ()))
        on = {} if node.condition is None else _limits(node.condition.conjuncts())
        for place, side in enumerate(node.children):
            # The right side of a temporal join is not filtered: a version that does not pass is still the newest of
            # its key.
            if place and self._is_temporal(node):
                self.go(side, {})
            else:
                self.go(side, _both(limits if place in by_where else {}, on if place in by_on else {}))


def _renamed(project: PlanNode, limits: Limits) -> Limits:
    pairs = ((each.column_id, limits.get(each.attribute.id)) for each in project.expressions)
    return reduce(_both, ({column: limit} for column, limit in pairs if column != COMPUTED and limit is not None), {})


def _both(one: Limits, other: Limits) -> Limits:
    return {**one, **{column: min(limit, one.get(column, limit)) for column, limit in other.items()}}


def _limits(conditions: Iterable[Expression]) -> Limits:
    return reduce(_both, map(_limit, conditions), {})


def _limit(condition: Expression) -> Limits:
    """Return the greatest row number that a condition accepts; at least 1, because operators keep at least one row."""
    column, numbers = _numbers(condition)
    if condition.kind == "In":
        value, *listed = condition.children
        values = [_constant(each) for each in listed]
        column, numbers = _column(value), range(max(each or 0 for each in values) + 1)
        column = COMPUTED if None in values else column
    return {column: max(numbers.stop - 1, 1)} if column != COMPUTED and numbers.stop < _END else {}


def _numbers(condition: Expression) -> tuple[int, range]:
    """Return the column id of a comparison and the numbers that pass; `COMPUTED` for other conditions."""
    if condition.kind == "Between":
        value, lower, upper = condition.between
        first, last = _constant(lower), _constant(upper)
        return (COMPUTED, _ANY) if first is None or last is None else (_column(value), range(first, last + 1))
    if condition.kind not in _RANGES:
        return COMPUTED, _ANY
    kind, (value, other) = condition.kind, condition.children
    if value.is_constant:
        kind, value, other = _MIRRORED[kind], other, value
    number = _constant(other)
    return (COMPUTED, _ANY) if number is None else (_column(value), _RANGES[kind](number))


def _column(value: Expression) -> int:
    """Return the id of an int column of row numbers, also if it is cast to bigint."""
    while value.kind == "Cast" and value.type_name == "bigint" and value.children[0].type_name == "int":
        value = value.children[0]
    return value.column_id


def _constant(value: Expression) -> int | None:
    is_number = value.type_name in _WHOLE_NUMBERS and all(each.kind in _ARITHMETIC for each in value.walk())
    return None if not is_number or value.value is None else int(value.value)
