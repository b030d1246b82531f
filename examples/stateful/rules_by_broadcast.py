"""Finds payments that match rules from another stream: every subtask has all rules in its broadcast state.

    python examples/stateful/rules_by_broadcast.py PAYMENTS RULES FOUND

reads parquet files of payments (`user bigint, amount bigint, at timestamp`) and of rules (`rule string, at_least
bigint, since timestamp`), and writes a row for each pair of payment and matching rule.
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
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ListStateDescriptor,
    MapStateDescriptor,
    ReadOnlyTimerContext,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

RULES = MapStateDescriptor("rules", "string", "struct<at_least: bigint, since: bigint>")
FOUND = "user bigint, amount bigint, rule string, at timestamp"


class ApplyRules(KeyedBroadcastProcessFunction):
    """Buffers a payment until the watermark has reached its time, so that all earlier rules have arrived."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Register the state, which contains a user's pending payments with their times in ms."""
        payment = ListStateDescriptor("waiting", "struct<amount: bigint, at: bigint>")
        self._waiting = runtime_context.get_list_state(payment)

    def process_element(self, row: dict[str, Any], ctx: KeyedReadOnlyContext) -> None:
        """Buffer a payment."""
        at_ms = _milliseconds(row["at"])
        self._waiting.add({"amount": row["amount"], "at": at_ms})
        ctx.timer_service().register_event_time_timer(at_ms)

    def process_broadcast_element(self, row: dict[str, Any], ctx: KeyedBroadcastContext) -> None:
        """Store a new or changed rule."""
        rule = {"at_least": row["at_least"], "since": _milliseconds(row["since"])}
        ctx.get_broadcast_state(RULES).put(row["rule"], rule)

    def on_timer(self, timestamp: int, ctx: ReadOnlyTimerContext) -> Iterator[dict[str, Any]]:
        """Apply the rules to the payments up to this time."""
        waiting = self._waiting.get()
        self._waiting.update([payment for payment in waiting if payment["at"] > timestamp])
        rules = ctx.get_broadcast_state(RULES).items()
        for payment in waiting:
            if payment["at"] <= timestamp:
                at = datetime.fromtimestamp(payment["at"] / 1000, UTC)
                for name, rule in rules:
                    if rule["since"] <= payment["at"] and payment["amount"] >= rule["at_least"]:
                        yield {"user": ctx.get_current_key(), "amount": payment["amount"], "rule": name, "at": at}


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def found(payments: DataStream, rules: DataStream) -> DataStream:
    """Return the payments that match rules."""
    return payments.key_by("user").connect(rules.broadcast(RULES)).process(ApplyRules(), FOUND).uid("found")


def main(payments: str, rules: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min")
        paid = env.from_source(
            FileSource.parquet(payments), watermarks.with_timestamp_column("at"), "payments", uid="payments"
        )
        said = env.from_source(
            FileSource.parquet(rules), watermarks.with_timestamp_column("since"), "rules", uid="rules"
        )
        found(paid, said).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("rules")


if __name__ == "__main__":
    main(*sys.argv[1:])
