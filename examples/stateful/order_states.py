"""Runs a state machine for each order: applies events in the order of their times, and rejects invalid events.

    python examples/stateful/order_states.py EVENTS STATES

reads parquet files of events (`order_id bigint, event string, at timestamp`), and writes every state change (`order_id
bigint, state string, at timestamp`). Events that were invalid in the state of their order are written below
`STATES.rejected` (`order_id bigint, state string, event string, at timestamp`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    FunctionRuntimeContext,
    KeyedContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    StreamExecutionEnvironment,
    TimerContext,
    ValueStateDescriptor,
    WatermarkStrategy,
)

NEXT = {
    ("new", "pay"): "paid",
    ("new", "cancel"): "cancelled",
    ("paid", "ship"): "shipped",
    ("paid", "cancel"): "refunded",
    ("shipped", "deliver"): "delivered",
}
"""The state that an event leads to."""

REJECTED = OutputTag("rejected", "order_id bigint, state string, event string, at timestamp")


class OrderStates(KeyedProcessFunction):
    """Buffers events until no earlier event can arrive, and then applies them."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Register the states: the order's current state, and its pending events."""
        self._state = runtime_context.get_state(ValueStateDescriptor("state", "string", default="new"))
        self._waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", "struct<event: string, at: timestamp>")
        )

    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        """Buffer an event until the watermark has reached its time."""
        self._waiting.add({"event": row["event"], "at": row["at"]})
        ctx.timer_service().register_event_time_timer(round(row["at"].timestamp() * 1000))

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        """Apply the events up to this time. Events with equal times are applied by name, so that all runs agree."""
        order_id, state = ctx.get_current_key(), str(self._state.value())
        waiting = sorted(self._waiting.get(), key=lambda each: (each["at"], each["event"]))
        due = [each for each in waiting if round(each["at"].timestamp() * 1000) <= timestamp]
        for each in due:
            following = NEXT.get((state, each["event"]))
            if following is None:
                ctx.output(REJECTED, {"order_id": order_id, "state": state, **each})
            else:
                state = following
                yield {"order_id": order_id, "state": state, "at": each["at"]}
        self._state.update(state)
        self._waiting.update(waiting[len(due) :])


def states(events: DataStream) -> DataStream:
    """Return every state change of every order, with the side output `REJECTED`."""
    return events.key_by("order_id").process(OrderStates(), "order_id bigint, state string, at timestamp").uid("states")


def main(events: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(events), watermarks, "events", uid="events")
        changes = states(rows)
        changes.sink_to(FileSink.parquet(output)).uid("output")
        changes.get_side_output(REJECTED).sink_to(FileSink.parquet(f"{output}.rejected")).uid("rejected")
        env.execute("order states")


if __name__ == "__main__":
    main(*sys.argv[1:])
