"""Raises an alarm for each sensor without readings for five minutes, using a timer per key.

    python examples/stateful/silent_sensors.py READINGS ALARMS

reads parquet files of readings (`sensor bigint, at timestamp`) and writes alarms (`sensor bigint, silent_since
timestamp, alarm_at timestamp`).
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
    KeyedProcessFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    TimerContext,
    WatermarkStrategy,
)

SILENCE_MS = 5 * 60 * 1000


class SilenceAlarm(KeyedProcessFunction):
    """Checks five minutes after each reading whether another one has arrived. Readings may be out of order."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Register the state: the times of unchecked readings, in milliseconds."""
        self._readings = runtime_context.get_list_state(ListStateDescriptor("readings", "bigint"))

    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        """Store a reading."""
        at_ms = round(row["at"].timestamp() * 1000)
        self._readings.add(at_ms)
        ctx.timer_service().register_event_time_timer(at_ms + SILENCE_MS)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        """Raise the alarm, unless there was a later reading."""
        silent_since = timestamp - SILENCE_MS
        later = [at_ms for at_ms in self._readings.get() if at_ms > silent_since]
        self._readings.update(later)
        if not any(at_ms <= timestamp for at_ms in later):
            yield {"sensor": ctx.get_current_key(), "silent_since": _time(silent_since), "alarm_at": _time(timestamp)}


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def alarms(readings: DataStream) -> DataStream:
    output = "sensor bigint, silent_since timestamp, alarm_at timestamp"
    return readings.key_by("sensor").process(SilenceAlarm(), output).uid("alarms")


def main(readings: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(readings), watermarks, "readings", uid="readings")
        alarms(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("silent sensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
