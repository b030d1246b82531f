"""Runs a query of Nexmark as a DataStream program over generated events.

    python -m examples.nexmark q5 hot_items --events 1000000
    python -m examples.nexmark q5 hot_items --events-per-second 10000

writes the result as parquet files; without a number of events the job runs until it is cancelled.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from examples.nexmark.programs import PROGRAMS, Views
from examples.nexmark.source import EVENT_TIME, WATERMARK_DELAY, nexmark_source
from flykka import FileSink, StreamExecutionEnvironment, WatermarkStrategy


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("query", choices=PROGRAMS)
    parser.add_argument("output", help="the folder for the files")
    parser.add_argument("--events", type=int, metavar="N", help="how many events (default: without end)")
    parser.add_argument("--events-per-second", type=float, metavar="N", help="default: as fast as they are read")
    parser.add_argument("--parallelism", type=int, default=1, metavar="N")
    options = parser.parse_args(arguments)
    if options.events is None and options.events_per_second is None:
        parser.error("events without end need a rate: --events-per-second")
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_parallelism(options.parallelism)
        env.enable_checkpointing("1s").set_checkpoint_dir(f"{options.output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
        source = nexmark_source(options.events, events_per_second=options.events_per_second)
        events = env.from_source(source, watermarks, "events", uid="events")
        found = PROGRAMS[options.query](Views.of(events, env.spark))
        found.sink_to(FileSink.parquet(options.output)).uid("output")
        env.execute(options.query)


if __name__ == "__main__":
    main()
