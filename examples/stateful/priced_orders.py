"""Adds prices to orders while prices change: two streams that share the state of a key.

    python examples/stateful/priced_orders.py ORDERS PRICES PRICED

reads parquet files of orders (`order_id bigint, product bigint, amount bigint, at timestamp`) and of prices (`product
bigint, price bigint, since timestamp`), and writes the orders, each with the price of its product at its time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    FunctionRuntimeContext,
    KeyedContext,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TimerContext,
    WatermarkStrategy,
)

PRICED = "order_id bigint, product bigint, amount bigint, price bigint, at timestamp"


class PriceOrders(KeyedCoProcessFunction):
    """Buffers an order until the watermark has reached its time, so that all earlier prices have arrived."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Register the states: the prices by the start of their validity, and the pending orders; times in ms."""
        order = "struct<order_id: bigint, amount: bigint, at: bigint>"
        self._prices = runtime_context.get_map_state(MapStateDescriptor("prices", "bigint", "bigint"))
        self._waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", order))

    def process_element1(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        """Buffer an order."""
        at_ms = _milliseconds(row["at"])
        self._waiting.add({"order_id": row["order_id"], "amount": row["amount"], "at": at_ms})
        ctx.timer_service().register_event_time_timer(at_ms)

    def process_element2(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        """Store a price. Its timer deletes earlier prices, even if there are no orders."""
        since_ms = _milliseconds(row["since"])
        self._prices.put(since_ms, row["price"])
        ctx.timer_service().register_event_time_timer(since_ms)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        """Price the orders up to this time, and delete prices that are no longer valid."""
        prices = sorted(self._prices.items())
        waiting = self._waiting.get()
        self._waiting.update([order for order in waiting if order["at"] > timestamp])
        for order in waiting:
            if order["at"] <= timestamp:
                price = max(((since, price) for since, price in prices if since <= order["at"]), default=(0, None))[1]
                at = datetime.fromtimestamp(order["at"] / 1000, UTC)
                yield {**order, "product": ctx.get_current_key(), "price": price, "at": at}
        for since, _ in [each for each in prices if each[0] <= timestamp][:-1]:
            self._prices.remove(since)


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def priced(orders: DataStream, prices: DataStream) -> DataStream:
    """Return the orders with their prices; null if there was no price yet."""
    return orders.connect(prices).key_by("product", "product").process(PriceOrders(), PRICED).uid("priced")


def main(orders: str, prices: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min")
        ordered = env.from_source(
            FileSource.parquet(orders), watermarks.with_timestamp_column("at"), "orders", uid="orders"
        )
        changes = env.from_source(
            FileSource.parquet(prices), watermarks.with_timestamp_column("since"), "prices", uid="prices"
        )
        priced(ordered, changes).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("priced orders")


if __name__ == "__main__":
    main(*sys.argv[1:])
