"""Joins in SQL: with tables, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.api.table.refusals import RefusedError, check_append_only

if TYPE_CHECKING:
    from flykka.api.table.relation import Relation
    from flykka.spark_bridge.sql.plan_node import PlanNode

_KEEPS_LEFT = frozenset({"INNER", "CROSS", "LEFT OUTER", "LEFT SEMI", "LEFT ANTI"})
_KEEPS_RIGHT = frozenset({"INNER", "CROSS", "RIGHT OUTER"})


def joined_with_table(
    node: PlanNode, left: Relation | None, right: Relation | None, tables: tuple[PlanNode, ...]
) -> Relation:
    """The rows of a join; the side that reads no stream is None, and `tables` are the common tables that it may read.

    Raises:
        RefusedError: rows of the table would come again with every batch.
    """
    kind = node.join_type
    relation, place, keeping = (left, 0, _KEEPS_LEFT) if right is None else (right, 1, _KEEPS_RIGHT)
    assert relation is not None, "one of the sides reads a stream"
    if kind not in keeping:
        raise RefusedError(
            f"{kind} JOIN with a table would give the rows of the table that match nothing once per batch, though a"
            f" later batch may match them: the kinds that can run are {', '.join(sorted(keeping))}",
            node.position,
        )
    check_append_only(relation, "JOIN", node)
    return relation.then(node, place, tables)
