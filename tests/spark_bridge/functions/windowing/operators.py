"""Window operators for tests, whose state is written and read between any two batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

from flykka.spark_bridge.functions.aggregate_function import AggregateFunction
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import Aggregated
from flykka.spark_bridge.functions.windowing.window_function import (
    AnyWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from flykka.spark_bridge.functions.windowing.window_operator import Windowing, WindowOperator
from tests.spark_bridge.functions.state_table import Row, StateTable

ROW_TYPE = "struct<key:string,n:bigint,time:bigint>"


@dataclass(frozen=True)
class Late:
    id: str = "late"


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[Row]:
        yield {"contents": (key, context.window(), tuple(each["n"] for each in elements))}


class Sum(AggregateFunction[Row, dict[str, int], Row]):
    def create_accumulator(self) -> dict[str, int]:
        return {"total": 0}

    def add(self, value: Row, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator["total"] += value["n"]
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> Row:
        return {"n": accumulator["total"]}

    def merge(self, acc_a: dict[str, int], acc_b: dict[str, int]) -> dict[str, int]:
        return {"total": acc_a["total"] + acc_b["total"]}


def summed(one: Row, two: Row) -> Row:
    return {**two, "n": one["n"] + two["n"]}


SUM = Aggregated(Sum(), "struct<total:bigint>")


def windowed_table(assigner: WindowAssigner, function: AnyWindowFunction | None = None, **more: Any) -> StateTable:
    """Return a table with this window operator, which is pickled once as if sent to workers."""
    function = Contents() if function is None else function
    operator = WindowOperator(Windowing(assigner=assigner, function=function, row_type=ROW_TYPE, **more))
    return StateTable(cloudpickle.loads(cloudpickle.dumps(operator)))


def window_row(key: str, time: int | None, n: int = 1) -> Row:
    return {"key": key, "n": n, "time": time}


def emitted_values(rows: list[Row]) -> list[Any]:
    return [each["contents"] for each in rows]
