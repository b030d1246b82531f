"""Joins of two streams of which a result may have to be taken back: changelogs with deletes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flykka.api.table.refusals import RefusedError

if TYPE_CHECKING:
    from flykka.api.table.relation import Relation, Rows
    from flykka.spark_bridge.operators.join import Side
    from flykka.spark_bridge.sql.plan_node import PlanNode


def changing_join(node: PlanNode, kind: str, sides: Mapping[Side, Rows]) -> Relation:
    """The rows of a join that a later row may change.

    Raises:
        RefusedError: always; no operator takes a result back.
    """
    for side, rows in sides.items():
        if rows.stream.changelog.keys is not None:
            raise RefusedError(
                f"{kind} JOIN of two streams, of which the {side} one is {rows.stream.changelog}, cannot run: results"
                " of a row that changes would stay. Windows, GROUP BY window(...), give each result once",
                node.position,
            )
    if kind in ("LEFT SEMI", "LEFT ANTI"):
        raise RefusedError(
            f"{kind} JOIN of two streams cannot run: a row may meet one that is still to come. INNER JOIN with the"
            " SELECT DISTINCT keys of the other stream gives the rows that meet some; LEFT JOIN with bounds on the"
            " event times and IS NULL around it those that meet none",
            node.position,
        )
    raise RefusedError(
        f"{kind} JOIN of two streams without bounds cannot run: a row that meets none may meet one at any time. Bound"
        " the difference of the two event times in the ON, as in b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES, or"
        " write INNER JOIN",
        node.position,
    )
