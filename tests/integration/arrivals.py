"""Sales that arrive over time: runs the program of `sales` on a growing folder, also as a process that can be killed.

    python -m tests.integration.arrivals ARRIVALS OUTPUT [OBJECT_STORE]

prints a line per completed checkpoint. With an object store for the checkpoints it copies the sales unchanged, because
Spark needs a jar to write state there.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from tests.integration.sales import FILES, aggregates

END = "_SUCCESS"


def deliver_first_files(sales: Path, arrivals: Path, files: int = FILES // 2) -> None:
    first = sorted(sales.glob("*.parquet"))[:files]
    arrivals.mkdir()
    for file in first:
        shutil.copy(file, arrivals)


def deliver_remaining_files(sales: Path, arrivals: Path, files: int = FILES) -> None:
    """Copy the remaining files in order, each atomically, and then the end marker."""
    for file in sorted(sales.glob("*.parquet"))[:files]:
        if not (arrivals / file.name).exists():
            hidden = arrivals / f".{file.name}"
            shutil.copy(file, hidden)
            hidden.rename(arrivals / file.name)
    (arrivals / END).touch()


def start_hourly_arrivals(env: StreamExecutionEnvironment, arrivals: Path, output: Path) -> JobClient:
    """Submit the program: one file per batch, a checkpoint every 300 ms into the folder beside the output."""
    env.enable_checkpointing("300ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    source = FileSource.parquet(str(arrivals)).files_per_batch(1).monitor_continuously("50ms", until=END)
    hourly = (
        env.from_source(source, watermarks, "sales", uid="sales")
        .key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(*aggregates())
        .uid("hourly")
    )
    hourly.sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("sales")


def start_copy(env: StreamExecutionEnvironment, arrivals: Path, output: Path, checkpoints: str) -> JobClient:
    """Submit a program without keyed state: one file per batch, a checkpoint every 300 ms."""
    env.enable_checkpointing("300ms", tolerable_failures=100).set_checkpoint_dir(checkpoints)
    source = FileSource.parquet(str(arrivals)).files_per_batch(1).monitor_continuously("50ms", until=END)
    copied = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales")
    copied.sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("sales")


def _tell(message: Message) -> None:
    if isinstance(message, CheckpointCompleted):
        sys.stdout.write(f"{message.path}\n")
        sys.stdout.flush()


def main(arrivals: str, output: str, store: str | None = None) -> None:
    with StreamExecutionEnvironment.get_execution_environment("local[2]") as env:
        if store is None:
            client = start_hourly_arrivals(env, Path(arrivals), Path(output))
        else:
            client = start_copy(env, Path(arrivals), Path(output), store)
        client.add_listener(_tell)
        client.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
