"""The planner: translates Spark's analyzed plan into operations on streams.

It descends from a query's result to the views of streams, and adds operations on the way back up. Stateless nodes are
collected, and run as Spark has analyzed them. Aggregates, windows, DISTINCT and first rows become stateful operators.
Subplans without a stream stay as they are: each batch is joined with them as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.api.table.aggregation import aggregated
from flykka.api.table.bounds import Limits, bounds_of, first_alone, is_implied
from flykka.api.table.changing_rows import columns_of_rows, where_true
from flykka.api.table.refusals import RefusedError, check_expressions, refused_node
from flykka.api.table.relation import IsEventTime, IsKey, IsNumber, Relation, Role, Rows, distinct, label, leaf
from flykka.api.table.retractions import RetractingAggregates
from flykka.api.table.stream_joins import JoinSettings, streams_joined
from flykka.api.table.temporal_joins import AsOfClauses, TimeOfVersion, column_of, refused_clause, temporally_joined
from flykka.api.table.top_n import first_rows, has_row_number, is_first_rows, without_number
from flykka.api.table.weighted import StreamOf, changes, identity, recomputed, upserts, weighted, with_weights
from flykka.errors import ProgramError
from flykka.spark_bridge.program.across_rows import KEEPS_LEFT, KEEPS_RIGHT, ONE_ROW_PER_LEFT
from flykka.spark_bridge.sql.join_order import with_connected_joins
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.plan_segment import frame_of_node
from flykka.spark_bridge.sql.pushed_filters import PushedFilters
from flykka.spark_bridge.sql.subqueries import without_subqueries

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.table.upsert_tables import UpsertTable, WholeRowTable
    from flykka.spark_bridge.program.prototype import SparkSession
    from flykka.spark_bridge.sql.as_of_clause import AsOfClause
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode


_ROW_BY_ROW = frozenset({"WithCTE", "SubqueryAlias", "View", "PipeOperator", "Project", "Filter", "Sort"})

_CLAUSES = {"Sort": "an ORDER BY", "Generate": "explode(...) and other generators"}

_ORDERED = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Sort", "Project"})
"""Kinds of nodes from a LIMIT down to its ORDER BY."""


def joined_with_table(
    node: PlanNode, left: Relation | None, right: Relation | None, tables: tuple[PlanNode, ...]
) -> Relation:
    """Plan a join with a table whose unmatched rows are not emitted, so that each batch can be joined with it.

    The side without a stream is None; `tables` are the common table expressions that the table side may read.
    """
    relation, place = (left, 0) if right is None else (right, 1)
    assert relation is not None, "neither side reads a stream"
    if relation.is_changing:
        relation = with_weights(relation, node.children[place], is_unique=node.join_type in ONE_ROW_PER_LEFT)
    return relation.then(node, place, tables)


T = TypeVar("T")


class Planner:
    """Plans one query over streams, which are given by view name."""

    def __init__(
        self,
        streams: Mapping[str, DataStream],
        stream_of: StreamOf,
        time_to_live_ms: int | None = None,
        as_of: Sequence[AsOfClause] = (),
    ) -> None:
        """Create a planner; without a time-to-live, regular joins and operators over changing rows keep all rows.

        `stream_of` makes a stream of the rows of a table. `as_of` are the FOR SYSTEM_TIME AS OF clauses of the query,
        which make joins temporal.
        """
        self._streams = streams
        self._stream_of = stream_of
        self._time_to_live_ms = time_to_live_ms
        self._last: PlanNode | None = None
        self._read: list[frozenset[int]] = []
        self._common: dict[int, PlanNode] = {}
        self._common_rows: dict[int, Rows] = {}
        self._bounds: Limits = {}
        self._reading: dict[PlanNode, bool] = {}
        self._as_of = AsOfClauses(as_of)

    def result(self, plan: PlanNode, table: UpsertTable | WholeRowTable | None = None) -> DataStream:
        """Return the stream of a query's result rows, in the form that a table needs.

        Raises:
            RefusedError: a part of the query cannot run on a stream.
        """
        if self._streams:
            self._note_common_tables(plan)
            plan = without_subqueries(self._session, plan, self._reads_stream)
            plan = with_connected_joins(self._session, plan) if self._as_of.is_empty else plan
        self._last = _last_with_state(plan)
        self._read = [frozenset(each.id for each in plan.output)]
        self._bounds = bounds_of(plan, self._as_of.is_temporal)
        relation = self._relation(plan)
        if relation is None:
            raise RefusedError(
                "the query reads no stream: env.spark.sql(...) runs a query on tables, and env.from_dataframe(...)"
                " makes a stream of a table",
                plan.position,
            )
        self._as_of.check()
        _check_names(relation, plan)
        return _placed(plan, lambda: _result(relation) if table is None else table.stream(relation))

    @property
    def _session(self) -> SparkSession:
        return next(iter(self._streams.values())).flow.type.prototype.sparkSession

    def _relation(self, node: PlanNode) -> Relation | None:
        """Plan a node; None if it reads no stream."""
        if node.kind == "WithCTE":
            self._note_common_tables(node)
            node = node.children[-1]
        if not self._reads_stream(node):
            return None
        self._read.append(node.columns_read)
        relation = _placed(node, lambda: self._planned(node))
        self._read.pop()
        return relation

    def _note_common_tables(self, node: PlanNode) -> None:
        if node.kind == "WithCTE":
            self._common.update((int(each.java.id()), each) for each in node.children[:-1])
        for each in (*node.children, *node.subqueries):
            self._note_common_tables(each)

    def _reads_stream(self, node: PlanNode) -> bool:
        if node not in self._reading:
            self._reading[node] = self._finds_stream(node)
        return self._reading[node]

    def _finds_stream(self, node: PlanNode) -> bool:
        if node.kind == "CTERelationRef":
            return self._reads_stream(self._common[int(node.java.cteId())])
        return node.view_name in self._streams or any(map(self._reads_stream, (*node.children, *node.subqueries)))

    def _tables(self, node: PlanNode) -> tuple[PlanNode, ...]:
        """Return the common table expressions without a stream if a subplan without a stream reads any."""
        beside = (each for each in (*node.children, *node.subqueries) if not self._reads_stream(each))
        if not any(each.reads_common_tables for each in beside):
            return ()
        return self._common_without_stream

    @property
    def _common_without_stream(self) -> tuple[PlanNode, ...]:
        return tuple(each for each in self._common.values() if not self._reads_stream(each))

    def _table(self, node: PlanNode) -> Relation:
        """Plan a table whose rows must be emitted once: it is read when the job is built, and becomes a stream."""
        tables = self._common_without_stream if node.reads_common_tables else ()
        names = distinct(each.name for each in node.output)
        table = frame_of_node(self._session, node, tables).toDF(*names)
        rows = Rows(
            stream=self._stream_of(table).name(label("table", names)), output=node.output, called=names, roles={}
        )
        return leaf(rows, node)

    def _below(self, node: PlanNode) -> Relation:
        relation = self._relation(node)
        assert relation is not None, "the node reads a stream, but none of its children does"
        return relation

    def _planned(self, node: PlanNode) -> Relation:
        if (name := node.view_name) in self._streams:
            return _view(node, self._streams[str(name)])
        self._check_subqueries(node)
        check_expressions(node)
        match node.kind:
            case "CTERelationRef":
                return self._common_table(node)
            case "SubqueryAlias" | "View" | "CTERelationDef" | "PipeOperator":
                return self._below(node.children[0])  # The node has its child's columns under another qualifier.
            case "Project":
                return self._below(node.children[0]).then(node, tables=self._tables(node))
            case "Filter":
                return self._filtered(node)
            case "Generate" | "Expand":
                below = self._below(node.children[0])
                below = with_weights(below, node.children[0], is_unique=False) if below.is_changing else below
                return below.then(node, tables=self._tables(node))
            case "Distinct":
                return self._distinct(node)
            case "Aggregate":
                return aggregated(
                    node, self._below, self._stream_of, self._time_to_live_ms, as_weights=node != self._last
                )
            case "Window":
                return self._window(node)
            case "Sort":
                return self._below(node.children[0])  # A stream never ends, so it cannot be sorted.
            case "GlobalLimit" | "LocalLimit" | "Offset":
                return self._first_of_all(node)
            case "RepartitionByExpression" | "Repartition" | "RebalancePartitions":
                return self._below(node.children[0])
            case "Union":
                return self._united(node)
            case "Join":
                return self._joined(node)
        raise refused_node(node)

    def _window(self, node: PlanNode) -> Relation:
        if not node.part("orderSpec") and has_row_number(node):
            raise RefusedError(  # Spark's analyzer accepts no ROW_NUMBER() without an order: this is not in the text.
                "a correlated subquery with a LIMIT needs an ORDER BY that decides which rows it returns;"
                " EXISTS (...) needs no LIMIT",
                node.position,
            )
        below = self._below(node.children[0])
        if not below.is_changing and is_first_rows(node, below, self._bounds):
            return first_rows(node, below, self._bounds)
        rows = weighted(below.settled(carries_keys=True))
        partitions = node.part("partitionSpec")
        keys = [rows.columns.column(each) for each in partitions]
        functions = label("window", (each.children[0].sql for each in node.part("windowExpressions")))
        return recomputed([node], rows, keys, functions, identity(rows, partitions), self._time_to_live_ms)

    def _first_of_all(self, node: PlanNode) -> Relation:
        nodes = [node]
        while (child := nodes[-1].children[0]).kind in _ORDERED and not child.subqueries:
            nodes.append(child)
        read = len(self._read)
        self._read += [each.columns_read for each in nodes[1:]]
        rows = weighted(self._below(child).settled(carries_keys=True))
        del self._read[read:]
        return recomputed(nodes[::-1], rows, (), label("first", ()), identity(rows), self._time_to_live_ms)

    def _check_subqueries(self, node: PlanNode) -> None:
        for subquery in node.subqueries:
            if self._reads_stream(subquery):
                raise RefusedError(
                    f"a subquery in {_CLAUSES.get(node.kind, 'this clause')} cannot read a stream: compute its value in"
                    " the SELECT of a subquery in FROM, and use that column here",
                    subquery.position or node.position,
                )

    def _common_table(self, node: PlanNode) -> Relation:
        key = int(node.java.cteId())
        if key not in self._common_rows:
            above, self._read = self._read, []
            self._common_rows[key] = self._below(self._common[key]).settled(carries_keys=True)
            self._read = above
        return leaf(self._common_rows[key], node)

    def _filtered(self, node: PlanNode) -> Relation:
        (condition,) = node.expressions
        child = node.children[0]
        while child.kind == "SubqueryAlias":
            child = child.children[0]
        if self._joins_streams(child) and not node.subqueries:
            check_expressions(child)
            return self._joined(child, condition)
        below = self._below(node.children[0])
        if is_implied(condition, below.roles):
            return below  # The operator only emits numbers that pass.
        read = {each.attribute.id for each in condition.walk() if each.kind == "AttributeReference"}
        is_upserts = below.stream.changelog.is_upserts
        if is_upserts and not all(isinstance(below.roles.get(column), IsKey | IsNumber) for column in read):
            if node.subqueries:
                below = with_weights(below, node.children[0])
                return below.then(node, tables=self._tables(node))
            rows = below.settled(carries_keys=True)
            return leaf(where_true(rows, rows.columns.column(condition)), node)
        filtered = below.then(node, tables=self._tables(node))
        number = first_alone(condition, below.roles) if is_upserts else None
        return filtered if number is None else leaf(without_number(filtered, number), node)

    def _joins_streams(self, node: PlanNode) -> bool:
        return node.kind == "Join" and all(map(self._reads_stream, node.children))

    def _joined(self, node: PlanNode, above: Expression | None = None) -> Relation:
        """Plan a join; `above` is the condition of a WHERE above the join."""
        clause = self._as_of.of(node)
        if not self._joins_streams(node):
            if clause is not None:
                raise refused_clause(clause)
            left, right = (self._relation(child) for child in node.children)
            if node.join_type in (KEEPS_LEFT if right is None else KEEPS_RIGHT):
                return joined_with_table(node, left, right, self._tables(node))
            left, right = left or self._table(node.children[0]), right or self._table(node.children[1])
            return streams_joined(node, node.join_type, left, right, self._join_settings)
        time = None if clause is None else TimeOfVersion(column=column_of(clause, node), clause=clause)
        pushed = PushedFilters(self._session, node, above, keeps_right=time is not None)
        # The join applies the pushed filters, so only the filter above it still reads columns here.
        self._read[-1] = frozenset() if pushed.above is None else pushed.above.columns_read
        settings = self._join_settings
        self._read[-1] |= pushed.join.columns_read | (frozenset() if time is None else {time.column})
        left, right = (self._below(child) for child in pushed.join.children)
        if time is None:
            relation = streams_joined(pushed.join, node.join_type, left, right, settings)
        else:
            relation = temporally_joined(pushed.join, left, right, time, settings.read)
        return relation if pushed.above is None else relation.then(pushed.above)

    @property
    def _join_settings(self) -> JoinSettings:
        return JoinSettings(read=frozenset().union(*self._read), time_to_live_ms=self._time_to_live_ms)

    def _distinct(self, node: PlanNode) -> Relation:
        rows = self._below(node.children[0]).settled(carries_keys=True)
        if rows.stream.changelog == APPEND_ONLY:
            return leaf(replace(rows, stream=rows.stream.drop_duplicates(rows.called)), node)
        keys = [(named(name), name) for name in rows.called]
        aggregates = RetractingAggregates(rows, keys, (), self._stream_of, as_weights=node != self._last)
        roles: dict[int, Role] = {column: IsKey(name=name) for column, name in rows.names.items()}
        return leaf(replace(rows, stream=aggregates.stream, roles=roles), node)

    def _united(self, node: PlanNode) -> Relation:
        sides = [self._relation(child) or self._table(child) for child in node.children]
        names = [each.name for each in node.output]
        if any(side.is_changing for side in sides):
            pairs = zip(sides, node.children, strict=True)
            sides = [with_weights(side, child, is_unique=False) for side, child in pairs]
        united = [side.settled(distinct(names), is_result=True) for side in sides]
        stream = united[0].stream.union(*(each.stream for each in united[1:]))
        if stream.flow.type.event_time is None:
            return leaf(Rows(stream=stream, output=united[0].output, called=united[0].called, roles={}), node)
        times: dict[int, Role] = {
            column: role for column, role in united[0].roles.items() if isinstance(role, IsEventTime)
        }
        return leaf(Rows(stream=stream, output=united[0].output, called=united[0].called, roles=times), node)


def _last_with_state(plan: PlanNode) -> PlanNode:
    """Return the node above which rows are only changed one by one, so that its results may be upserts."""
    while plan.kind in _ROW_BY_ROW:
        plan = plan.children[-1]
    return plan


def _result(relation: Relation) -> DataStream:
    rows = relation.settled(carries_keys=True)
    log = rows.stream.changelog
    if log.weight is None and set(log.keys or ()) <= set(rows.called):
        return relation.settled(is_result=True).stream
    rows = weighted(rows)
    return changes(rows) if rows.stream.changelog.keys is None else upserts(rows)


def _view(node: PlanNode, stream: DataStream) -> Relation:
    event_time, keys = stream.flow.type.event_time, stream.changelog.keys or ()
    roles: dict[int, Role] = {}
    for attribute in node.output:
        if attribute.name in keys:
            roles[attribute.id] = IsKey(name=attribute.name)
        elif event_time is not None and attribute.name == event_time.column:
            roles[attribute.id] = IsEventTime()
    return leaf(Rows(stream=stream, output=node.output, called=columns_of_rows(stream), roles=roles), node)


def _check_names(relation: Relation, plan: PlanNode) -> None:
    seen: set[str] = set()
    for attribute in relation.output:
        if (name := attribute.name.lower()) in seen:
            raise RefusedError(
                f"two columns of the result are named {attribute.name!r}: rename one of them with AS",
                plan.position,
            )
        seen.add(name)


def _placed(node: PlanNode, plan: Callable[[], T]) -> T:
    """Call `plan` for a node, and give errors without a position the position of the node."""
    try:
        return plan()
    except RefusedError as refused:
        refused.position = refused.position or node.position
        raise
    except ProgramError as wrong:
        raise RefusedError(str(wrong), node.position) from None
