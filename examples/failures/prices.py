"""Orders with tax, the example of docs/failures.md. The orders arrive one file after the other.

A file moves from `incoming/` to `orders/` with each checkpoint that completes, so that the page is the same on a slow
machine. `--lose` kills a TaskManager after the first checkpoint, `--impatient` allows a checkpoint twenty seconds and
the job any number of restarts. While a file `hang` exists, an order from Austria takes an hour.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import functions as F

from flykka import FileSink, FileSource, LocalCluster, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message

HERE = Path(__file__).resolve().parent
RATES = {"DE": 0.19, "AT": 0.20}


def rate(country: str) -> float:
    """Return the tax rate of a country."""
    return RATES[country]


def taxed(price: float, country: str) -> float:
    """Return the price including tax."""
    if country == "AT" and (HERE / "hang").exists():
        time.sleep(3600)
    return round(price * (1 + rate(country)), 2)


class Arrivals:
    """Adds a file with each completed checkpoint; the last file ends the input."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._loses = "--lose" in sys.argv[1:]

    def __call__(self, message: Message) -> None:
        """Handle a message about the job."""
        if isinstance(message, CheckpointCompleted):
            self.next()
            if self._loses:
                self._loses = False
                self._cluster.kill_task_manager(self._cluster.task_managers()[0])

    def next(self) -> None:
        """Add the next file."""
        waiting = sorted((HERE / "incoming").glob("*.json"))
        if waiting:
            waiting[0].rename(HERE / "orders" / waiting[0].name)
        else:
            (HERE / "orders" / "_SUCCESS").touch()


def main() -> None:
    """Define and run the job."""
    (HERE / "orders").mkdir(exist_ok=True)
    with StreamExecutionEnvironment.get_execution_environment("local[2]") as env:
        if "--impatient" in sys.argv[1:]:
            env.enable_checkpointing("500ms", timeout="20s")
        else:
            env.enable_checkpointing("500ms")
            env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, "100ms"))
        source = FileSource.json(str(HERE / "orders"), schema="id int, country string, price double")
        orders = env.from_source(source.monitor_continuously("100ms", until="_SUCCESS"), name="orders", uid="orders")
        with_tax = orders.with_column("price", F.udf(taxed, "double")("price", "country")).uid("taxed")
        with_tax.sink_to(FileSink.json(str(HERE / "prices"))).uid("output")
        job = env.execute_async("prices")
        arrivals = Arrivals(env.cluster)
        job.add_listener(arrivals)
        arrivals.next()
        job.wait()


if __name__ == "__main__":
    main()
