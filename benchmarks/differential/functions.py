"""The functions of random programs; each emits the same rows in total, however rows are batched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flykka import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ValueStateDescriptor,
)

Row = dict[str, Any]

END_MS = 253_402_300_799_000
"""A time in ms that the watermark only reaches at the end of the input."""


RULES = MapStateDescriptor("rules", "int", "string")


def copied(row: Row, names: tuple[str, ...]) -> Row:
    return {name: row[name] for name in names}


class Copy(ProcessFunction):
    def __init__(self, names: tuple[str, ...], tag: OutputTag) -> None:
        self._names, self._tag = names, tag

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        ctx.output(self._tag, copied(row, self._names))
        yield copied(row, self._names)


class SizeOfSet(ProcessFunction):
    def __init__(self, names: tuple[str, ...], into: str) -> None:
        self._names, self._into = names, into

    def open(self, runtime_context: Any) -> None:
        self._size = len(list(runtime_context.get_broadcast_variable("static")))

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield {**copied(row, self._names), self._into: self._size}


class CopyBesideRules(BroadcastProcessFunction):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield copied(row, self._names)

    def process_broadcast_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        ctx.get_broadcast_state(RULES).put(row["sg"], row["v"])
        return iter(())


class Number(KeyedProcessFunction):
    """Adds to each row its number within its key, counted from 1."""

    def __init__(self, names: tuple[str, ...], into: str) -> None:
        self._names, self._into = names, into

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", "bigint", default=0))

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        self._count.update(self._count.value() + 1)
        yield {**copied(row, self._names), self._into: self._count.value()}


class CountAtEnd(Number):
    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        self._count.update(self._count.value() + 1)
        ctx.timer_service().register_event_time_timer(END_MS)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Row]:
        """Emit the count; the key is a tuple if there are several key columns."""
        key = ctx.get_current_key()
        values = (key,) if len(self._names) == 1 else tuple(key)
        yield {**dict(zip(self._names, values, strict=True)), self._into: self._count.value()}


class Both(CoProcessFunction):
    def __init__(self, first: tuple[str, ...], second: tuple[str, ...]) -> None:
        self._first, self._second = first, second

    def process_element1(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield copied(row, self._first)

    def process_element2(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield dict(zip(self._first, (row[name] for name in self._second), strict=True))


class MapBoth(CoMapFunction):
    """Does the same as `Both`, with two functions of a row."""

    def __init__(self, first: tuple[str, ...], second: tuple[str, ...]) -> None:
        self._first, self._second = first, second

    def map1(self, row: Row) -> Row:
        return copied(row, self._first)

    def map2(self, row: Row) -> Row:
        return dict(zip(self._first, (row[name] for name in self._second), strict=True))


class FlatMapBoth(CoFlatMapFunction):
    def __init__(self, first: tuple[str, ...], second: tuple[str, ...]) -> None:
        self._first, self._second = first, second

    def flat_map1(self, row: Row) -> list[Row]:
        return [copied(row, self._first)] * 2

    def flat_map2(self, row: Row) -> list[Row]:
        return [dict(zip(self._first, (row[name] for name in self._second), strict=True))]


class NumberBoth(KeyedCoProcessFunction):
    """Adds to each row of two inputs its number within its key, counted from 1 over both inputs."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", "bigint", default=0))

    def process_element1(self, row: Row, ctx: Any) -> Iterator[Row]:
        self._count.update(self._count.value() + 1)
        yield {"key": ctx.get_current_key(), "n": self._count.value()}

    def process_element2(self, row: Row, ctx: Any) -> Iterator[Row]:
        return self.process_element1(row, ctx)


class RowCount(AggregateFunction[Row, int, Row]):
    def __init__(self, into: str) -> None:
        self._into = into

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Row, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> Row:
        return {self._into: accumulator}

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class CountWindow(ProcessWindowFunction):
    def __init__(self, names: tuple[str, ...], into: str) -> None:
        self._names, self._into = names, into

    def process(self, key: Any, context: Any, elements: list[Row]) -> Iterator[Row]:
        yield {**copied(elements[0], self._names), self._into: len(elements)}


class CountAll(ProcessAllWindowFunction):
    def __init__(self, into: str) -> None:
        self._into = into

    def process(self, context: Any, elements: list[Row]) -> Iterator[Row]:
        yield {self._into: len(elements)}


def numbered_table(rows: Any, state: Any) -> tuple[Any, Any]:
    """Return the rows of a batch unchanged; the state counts batches."""
    import pyarrow as pa

    place = state.schema.get_field_index("batches")
    counts = [1 + (count or 0) for count in state.column(place).to_pylist()]
    return rows, state.set_column(place, state.schema.field(place), pa.array(counts, pa.int64()))


def counted_group(left: Any, right: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({"m": [len(left)], "n": [len(right)]})
