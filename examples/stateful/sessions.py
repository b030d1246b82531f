"""The visits of each user: sessions that end when there was no click for half an hour.

    python examples/stateful/sessions.py CLICKS VISITS

reads parquet files of clicks (`user bigint, at timestamp`) and writes
`user bigint, clicks bigint, began timestamp, ended timestamp`, each visit when it has ended.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from flykka import (
    AggregateFunction,
    DataStream,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

GAP_MS = 30 * 60 * 1000


class Clicks(AggregateFunction[dict[str, Any], int, int]):
    """Counts clicks."""

    def create_accumulator(self) -> int:
        """Begin with none."""
        return 0

    def add(self, value: dict[str, Any], accumulator: int) -> int:
        """Count another."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """The count."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Two sessions have become one."""
        return acc_a + acc_b


class Visit(ProcessWindowFunction):
    """Tells a visit of its window, which ends a gap behind the last click, and the count of its clicks."""

    def process(self, key: Any, context: Any, elements: list[int]) -> list[dict[str, Any]]:
        """Emit the visit."""
        window, (clicks,) = context.window(), elements
        began, ended = _time(window.start), _time(window.end - GAP_MS)
        return [{"user": key, "clicks": clicks, "began": began, "ended": ended}]


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def visits(clicks: DataStream) -> DataStream:
    """The visits of a stream of clicks."""
    return (
        clicks.key_by("user")
        .window(EventTimeSessionWindows.with_gap(GAP_MS))
        .aggregate(
            Clicks(),
            Visit(),
            accumulator_type="bigint",
            output="user bigint, clicks bigint, began timestamp, ended timestamp",
        )
        .uid("visits")
    )


def main(clicks: str, output: str) -> None:
    """Run the job over a folder of clicks."""
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(clicks), watermarks, "clicks", uid="clicks")
        visits(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("visits")


if __name__ == "__main__":
    main(*sys.argv[1:])
