"""The error of a text that cannot be read."""

from __future__ import annotations

from flykka.spark_bridge.sql.plan_node import Position


class SqlTextError(ValueError):
    """Spark cannot read a text, or finds no sense in it. `condition` is Spark's name for what is wrong."""

    def __init__(self, text: str, position: Position | None, condition: str = "") -> None:
        super().__init__(text)
        self.position = position
        self.condition = condition
