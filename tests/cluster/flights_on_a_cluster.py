"""Runs the flights demo on a standalone Spark cluster, one of whose workers is killed midway; a test starts this
module.

`python -m tests.cluster.flights_on_a_cluster MASTER FOLDER`: when the second checkpoint has completed, the worker is
killed whose executor holds the most rows. The last line is the demo's verdict on the output, or the difference.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import psutil
from pyspark.sql import SparkSession

from flykka import Console, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.control.job import CheckpointCompleted, JobRestored
from flykka.messages.wire.message import Message
from tests.cluster.standalone import switch_off

FILES = 10
KILL_AFTER_CHECKPOINTS = 2


class WorkerKiller:
    """Kills a worker when two checkpoints have completed, and checks that the job is restored and continues."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._completed = 0
        self._restored = False
        self.killed: str | None = None
        self.has_killed = threading.Event()
        self.completed_after = threading.Event()

    def __call__(self, message: Message) -> None:
        match message:
            case JobRestored():
                self._restored = self.killed is not None
            case CheckpointCompleted() if self._restored:
                self.completed_after.set()
            case CheckpointCompleted():
                self._completed += 1
                if self._completed == KILL_AFTER_CHECKPOINTS:
                    print("--- killing a worker", flush=True)
                    switch_off(fullest_worker(self._session))
                    self.killed = "a worker"
                    self.has_killed.set()
            case _:
                pass


def fullest_worker(session: SparkSession) -> int:
    """Return the process id of the worker whose executor stores the most rows of batches and state, so that its loss
    matters.
    """
    listening = {
        connection.laddr.port: connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.pid is not None
    }
    used: dict[int, int] = {}
    statuses = session.sparkContext._jsc.sc().getExecutorMemoryStatus().iterator()
    while statuses.hasNext():
        status = statuses.next()
        process = psutil.Process(listening[int(str(status._1()).rsplit(":", 1)[1])])
        # The driver's own JVM is among these processes.
        if process.ppid() != os.getpid():
            used[process.ppid()] = int(status._2()._1()) - int(status._2()._2())
    return max(used, key=lambda worker: used[worker])


def flights_demo() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "flights.py"
    spec = importlib.util.spec_from_file_location("flights_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_flights_demo(master: str, folder: Path) -> int:
    demo = flights_demo()
    vars(demo).update(FILES=FILES, SECONDS_BETWEEN_FILES=0.1)
    prepared, arrivals, output = (folder / name for name in ("prepared", "arrivals", "output"))
    prepared.mkdir()
    arrivals.mkdir()
    files = demo.write_files(prepared)
    with StreamExecutionEnvironment.get_execution_environment(master, 2, demo.SLOTS) as env:
        env.enable_checkpointing("500ms").set_checkpoint_dir(folder / "checkpoints")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=5, delay="0s"))
        demo.define_job(env, arrivals, output, parallelism=2)
        console, killer = Console(), WorkerKiller(env.spark)

        def hear(message: Message) -> None:
            console(message)
            killer(message)

        def feed() -> None:
            # Rows that arrive after the worker's end need the rows that it held.
            demo.put(files[: FILES // 2], arrivals)
            killer.has_killed.wait(timeout=demo.SECONDS_TO_WAIT_FOR_THE_KILL)
            demo.let_arrive(files[FILES // 2 :], arrivals, killer)

        threading.Thread(target=feed, name="feeder", daemon=True).start()
        client = env.execute_async("flights")
        client.add_listener(hear)
        client.wait()
        streamed = env.spark.read.parquet(str(output)).collect()
        return int(demo.verdict(streamed, demo.batch_result(env.spark, files).collect(), killer))


if __name__ == "__main__":
    sys.exit(run_flights_demo(sys.argv[1], Path(sys.argv[2])))
