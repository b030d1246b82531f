"""Tests that a reader of the output folder sees each row once, not before its checkpoint, while actors are killed."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.recovery import sales
from benchmarks.recovery.driver import run_killed
from benchmarks.recovery.fault_injection import FaultInjector, Kind
from benchmarks.recovery.moments import Moment, inject_at
from flykka import FileSink, FileSource, JobClient, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.control.checkpoint_coordination import MetadataWritten, RestoreState
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

KINDS = (Kind.TASK_MANAGER, Kind.TASK, Kind.BRIDGE, Kind.STAGE, Kind.COORDINATOR, Kind.JOB_MASTER)
"""Faults in the order of injection. Storage is excluded, because without the folder there are no rows to read."""

FILES_BETWEEN = 3
"""The number of files that arrive between two faults."""

END = "_SUCCESS"
CHECKPOINT_OF = re.compile(r"-(?P<checkpoint>\d+)-\d+-[0-9a-f]{8}-[0-9a-f-]+\.")
SECONDS = 120.0


class CompleteCheckpoints:
    """The ids of checkpoints whose metadata was written, or from which a JobMaster starts."""

    def __init__(self) -> None:
        self.ids: set[int] = set()

    def on_delivery(self, _recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        match message:
            case MetadataWritten(checkpoint_id=checkpoint_id):
                self.ids.add(checkpoint_id)
            case RestoreState(checkpoint=checkpoint) if checkpoint is not None:
                self.ids.add(checkpoint.checkpoint_id)


class CompleteOnDisk:
    """Contains the ids up to that of the newest checkpoint with metadata, or every id once a job has ended and removed
    its checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._newest = 0

    def __contains__(self, checkpoint_id: object) -> bool:
        there = [int(path.parent.name.removeprefix("chk-")) for path in self._folder.glob("*/chk-*/_metadata")]
        is_over = self._newest > 0 and not there
        self._newest = max([self._newest, *there])
        return is_over or (isinstance(checkpoint_id, int) and checkpoint_id <= self._newest)


class ContinuousReader(threading.Thread):
    """Reads the folder repeatedly, and collects errors in `complaints`."""

    def __init__(self, output: Path, complete: Container[int]) -> None:
        super().__init__(name="reader")
        self.complaints: list[str] = []
        self.looks = 0
        self.rows: dict[str, list[int]] = {}
        self._output = output
        self._complete = complete
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(0.01):
            self.look()

    def end(self) -> None:
        self._end.set()
        self.join()

    def look(self) -> None:
        there = {path.name for path in self._output.glob("*.parquet")}
        self.complaints += [f"{name} is gone" for name in self.rows.keys() - there]
        for name in sorted(there - self.rows.keys()):
            self.rows[name] = pq.ParquetFile(self._output / name).read(["sale"])["sale"].to_pylist()
            match = CHECKPOINT_OF.search(name)
            assert match is not None, f"the name {name} tells no checkpoint"
            if int(match["checkpoint"]) not in self._complete:
                self.complaints.append(f"{name} is there before its checkpoint is complete")
        times = Counter(sale for sales_of in self.rows.values() for sale in sales_of)
        self.complaints += [f"sale {sale} is there {number} times" for sale, number in times.items() if number > 1]
        self.looks += 1


def start_sales_writer(env: StreamExecutionEnvironment, arrivals: Path, folder: Path) -> JobClient:
    """Start a job that writes every sale that arrives, in two subtasks."""
    env.enable_checkpointing("50ms", tolerable_failures=1_000).set_checkpoint_dir(str(sales.checkpoints(folder)))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(arrivals)).files_per_batch(1).monitor_continuously("20ms", until=END)
    stream = env.from_source(source, uid="sales").rebalance()
    stream.sink_to(FileSink.parquet(str(sales.each(folder)))).uid("each").set_parallelism(2)
    return env.execute_async("sales")


def deliver_sales(arrivals: Path, numbers: range) -> None:
    for number in numbers:
        first = number * 100
        unfinished = arrivals / f".sales-{number:03}.parquet"
        sales.table().iloc[first : first + 100].to_parquet(unfinished, coerce_timestamps="us", index=False)
        unfinished.rename(arrivals / f"sales-{number:03}.parquet")


# Other tests kill tasks and TaskManagers.
@pytest.mark.parametrize(
    "kinds", [pytest.param(KINDS, marks=pytest.mark.long), (Kind.COORDINATOR, Kind.JOB_MASTER)], ids=["all", "two"]
)
def test_a_reader_sees_each_row_once_and_after_its_checkpoint_despite_kills(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path, kinds: tuple[Kind, ...]
) -> None:
    arrivals = tmp_path / "arrivals"
    arrivals.mkdir()
    deliver_sales(arrivals, range(FILES_BETWEEN))
    env = environment()
    complete = CompleteCheckpoints()
    env.cluster.system.add_delivery_hook(complete.on_delivery)
    reader = ContinuousReader(sales.each(tmp_path), complete.ids)
    reader.start()
    try:
        client = start_sales_writer(env, arrivals, tmp_path)
        injector = FaultInjector(env, tmp_path, random.Random(1))
        for number, kind in enumerate(kinds, start=1):
            moment = Moment(message="CommitCheckpoint" if number % 2 else "StageResult", count=1 + number // 2)
            fault = inject_at(env.cluster.system, moment, partial(injector.inject, kind))
            deliver_sales(arrivals, range(number * FILES_BETWEEN, (number + 1) * FILES_BETWEEN))
            assert fault.wait(SECONDS), f"there was nothing to hit: {kind}"
        (arrivals / END).touch()
        client.wait(SECONDS)
        assert injector.end()
    finally:
        reader.end()
    reader.look()

    assert reader.complaints == []
    assert reader.looks > len(kinds)
    assert sorted(sale for rows in reader.rows.values() for sale in rows) == list(
        range((len(kinds) + 1) * FILES_BETWEEN * 100)
    )


@pytest.mark.long
@pytest.mark.parametrize("message", ["CommitCheckpoint", "MetadataWritten", "StageResult"])
def test_a_reader_sees_each_row_once_when_another_driver_takes_over(tmp_path: Path, message: str) -> None:
    source = sales.write(tmp_path / "input")
    reader = ContinuousReader(sales.each(tmp_path), CompleteOnDisk(sales.checkpoints(tmp_path)))
    reader.start()
    try:
        was_killed, end = run_killed(source, tmp_path, Moment(message=message, count=4), SECONDS)
    finally:
        reader.end()
    reader.look()

    assert was_killed
    assert end == ""
    assert reader.complaints == []
    assert sorted(sale for rows in reader.rows.values() for sale in rows) == sales.table()["sale"].tolist()
