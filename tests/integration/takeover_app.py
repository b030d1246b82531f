"""An application of two jobs with a persistent store, killed or paused at the point that its arguments name.

python takeover_app.py FOLDER STORE [HOW]

STORE is a folder, or a path in ZooKeeper in the syntax of the command line.

HOW is `NAME:N` (SIGKILL right before the N-th message of this class is handled), `add` (between the metadata of a
checkpoint and its completion), `between` (between the two jobs), or `pause:NAME:N` (SIGSTOP right before the message).
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

from pyspark.sql import functions as F

from flykka import FileSink, StreamExecutionEnvironment, ZooKeeperSettings
from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.cluster.high_availability.stores import store_settings
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.spark_bridge.connectors.datagen import DataGenSource

ROWS = 200
"""Rows per job, at a hundred per second, so that several checkpoints complete."""

SESSION_TIMEOUT_MS = 10_000
"""The session timeout: a driver that is paused for longer loses the leadership. A busy machine pauses a process for
less time.
"""


def end(number: int = signal.SIGKILL) -> None:
    """Kill the process, without running any exit hook."""
    os.kill(os.getpid(), number)


def add_killer(env: StreamExecutionEnvironment, how: str) -> None:
    if how == "add":
        CheckpointPointers.add = lambda *_: end()  # type: ignore[method-assign]
    number = signal.SIGSTOP if how.startswith("pause:") else signal.SIGKILL
    name, _, left = how.removeprefix("pause:").partition(":")
    remaining = int(left) if left else -1

    def before(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        nonlocal remaining
        if type(message).__name__ == name:
            remaining -= 1
            if remaining == 0:
                print(f"{how}: ends here", flush=True)
                end(number)

    if left:
        env.cluster.system.add_delivery_hook(before)


def main(folder: str, store: str, how: str = "") -> None:
    settings = store_settings(store)
    environment = StreamExecutionEnvironment.get_execution_environment(
        "local[2]",
        slots_per_task_manager=1,
        high_availability=replace(settings, session_timeout_ms=SESSION_TIMEOUT_MS)
        if isinstance(settings, ZooKeeperSettings)
        else store,
    )
    with environment as env:
        env.enable_checkpointing("300ms").set_checkpoint_dir(f"{folder}/checkpoints")
        add_killer(env, how)
        for name in ("first", "second"):
            source = DataGenSource({"number": F.col("index")}, number_of_rows=ROWS, rows_per_second=100)
            rows = env.from_source(source, name="numbers", uid="numbers")
            rows.sink_to(FileSink.parquet(f"{folder}/{name}")).uid("output")
            result = env.execute(name)
            print(f"{name}: {'had finished before' if result.is_earlier else 'has finished'}", flush=True)
            if how == "between":
                end()


if __name__ == "__main__":
    main(*sys.argv[1:])
