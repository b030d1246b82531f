"""Times connectors: `python -m benchmarks.connectors`.

Records of 100 bytes wait in a topic of four partitions. Two processes with only a consumer each read half of the
partitions; one process consumes and produces each record again, and another one does so in transactions of a second; a
job reads them into parquet, another one into a topic, exactly once, with a checkpoint per second. Then a job takes rows
from parquet to parquet, and another to a Delta table. The jobs run in one process, each once before it counts; the
median of the rounds counts, and the output rows are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.arguments import positive_int
from benchmarks.connectors import bare
from benchmarks.connectors.broker import Broker, running_broker
from benchmarks.connectors.jobs import CHECKPOINT_INTERVAL_S, Jobs, WrongCountError, write_rows
from benchmarks.engine_process import EngineFailedError

TOPIC = "records"
PARTITIONS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as place:
        folder = Path(place)
        with running_broker(folder / "kafka") as broker:
            try:
                rates = _rates(folder, broker, options, say)
            except (EngineFailedError, WrongCountError) as failed:
                print(failed, file=sys.stderr)
                return 1
    found = as_json(rates)
    print(json.dumps(found, indent=2) if options.json else _table(found, options, broker.program.name))
    return 0


def as_json(rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the medians in records per second, and the ratios of Kafka to bare clients, and of the table to files."""
    found = {name: median(several) for name, several in rates.items()}
    ratios = {
        "kafka_to_kafka_over_bare": found["kafka_to_kafka"] / found["bare_transactions"],
        "delta_over_parquet": found["delta"] / found["parquet"],
    }
    return {
        **{name: round(rate) for name, rate in found.items()},
        **{name: round(ratio, 2) for name, ratio in ratios.items()},
    }


def _rates(
    folder: Path, broker: Broker, options: argparse.Namespace, say: Callable[[str], object]
) -> Mapping[str, Sequence[float]]:
    say(f"{broker.program.name}; writing {options.records:,} records")
    bare.fill(broker, TOPIC, PARTITIONS, options.records)
    write_rows(folder / "rows", options.records)
    rates: dict[str, list[float]] = {}
    with Jobs(broker.address, folder, options.records) as jobs:
        contestants: dict[str, Callable[[int], float]] = {
            "bare_consumers": lambda _: bare.consumed(broker, TOPIC, PARTITIONS, options.records),
            "bare_consumer_and_producer": lambda turn: bare.copied(broker, TOPIC, f"copy-{turn}", options.records),
            "bare_transactions": lambda turn: bare.copied(
                broker, TOPIC, f"transactions-{turn}", options.records, CHECKPOINT_INTERVAL_S
            ),
            "kafka_to_parquet": lambda turn: jobs.kafka_to_parquet(TOPIC, turn),
            "kafka_to_kafka": lambda turn: jobs.kafka_to_kafka(TOPIC, broker, turn),
            "parquet": jobs.parquet_to_parquet,
            "delta": jobs.parquet_to_delta,
        }
        for turn in range(1 + options.repeat):
            for name, contestant in contestants.items():
                rate = options.records / contestant(turn)
                say(f"{'warm-up' if turn == 0 else f'round {turn}'}: {name}: {rate:,.0f} records/s")
                if turn:
                    rates.setdefault(name, []).append(rate)
    return rates


def _table(found: Mapping[str, float], options: argparse.Namespace, broker: str) -> str:
    lines = [
        f"{options.records:,} records of 100 bytes, medians of {options.repeat}, {os.cpu_count()} cores, {broker}:",
        "",
        "| | records/s |",
        "| --- | ---: |",
    ]
    lines += [f"| {title} | {found[name]:,.0f} |" for name, title in _TITLES.items()]
    said = (
        f"From Kafka to Kafka flykka has {found['kafka_to_kafka_over_bare']} times the speed of bare transactions.",
        f"The Delta sink is {found['delta_over_parquet']} times as fast as the parquet sink.",
    )
    return "\n".join([*lines, "", *said])


_TITLES = {
    "bare_consumers": "two processes that consume, and do nothing else",
    "bare_consumer_and_producer": "one process that consumes and produces",
    "bare_transactions": "one process that consumes, and produces in transactions of a second",
    "kafka_to_parquet": "flykka, Kafka to parquet, exactly once",
    "kafka_to_kafka": "flykka, Kafka to Kafka, exactly once",
    "parquet": "flykka, parquet to parquet, exactly once",
    "delta": "flykka, parquet to Delta, exactly once",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.connectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--records", type=positive_int, default=1_200_000, metavar="N", help="how many records")
    parser.add_argument("--repeat", type=positive_int, default=3, metavar="N", help="rounds that count")
    return parser


if __name__ == "__main__":
    sys.exit(main())
