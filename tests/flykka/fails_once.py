"""A function that fails once."""

from __future__ import annotations

from pyspark.sql import DataFrame

from flykka import RichFunction, RuntimeContext


class FailsOnce(RichFunction):
    """A function whose first attempt fails at its second batch."""

    batches = 0
    attempt = 0

    def open(self, context: RuntimeContext) -> None:
        self.attempt = context.attempt_number

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.batches += 1
        if (self.attempt, self.batches) == (0, 2):
            raise ConnectionError("the connection is lost")
        return rows
