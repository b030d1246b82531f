"""Jobs from Kafka to Kafka: whatever dies on the way, a reader of committed records sees every row once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker, running_broker
from flykka import ConsoleSink, KafkaSource, OffsetsInitializer, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.tasks.stage import CommitCheckpoint
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from tests.connectors.kafka import flights

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60


@pytest.fixture
def flown(tmp_path: Path) -> Iterator[Broker]:
    """A broker that has the flights."""
    with running_broker(tmp_path / "kafka") as broker:
        flights.send(broker)
        yield broker


@pytest.fixture
def environment(spark: SparkSession) -> Iterator[Callable[[], StreamExecutionEnvironment]]:
    made: list[StreamExecutionEnvironment] = []

    def make() -> StreamExecutionEnvironment:
        made.append(StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=2))
        return made[-1]

    yield make
    for env in made:
        env.close()


def assert_no_row_is_there_twice(broker: Broker) -> None:
    seen = flights.published(broker)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(flights.expected())


def on_checkpoint(number: int, act: Callable[[], None]) -> Callable[[Message], None]:
    """Act on another thread when so many checkpoints were completed."""
    left = [number]

    def listen(message: Message) -> None:
        if isinstance(message, CheckpointCompleted):
            left[0] -= 1
            if left[0] == 0:
                threading.Thread(target=act, daemon=True).start()

    return listen


def test_a_task_manager_that_dies_changes_nothing(
    flown: Broker, environment: Callable[[], StreamExecutionEnvironment], tmp_path: Path
) -> None:
    env = environment()
    recipients: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = recipient.path.startswith("/user/task-manager-") and isinstance(message, CommitCheckpoint)
        if is_moment:
            recipients.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    kill = kill_when(env.cluster.system, lambda: env.cluster.system.find(recipients[-1]), matches, 2)

    client = flights.start(env, flown.address, tmp_path)
    assert kill.wait(timeout=60)
    assert_no_row_is_there_twice(flown)
    client.wait(timeout=PATIENCE_S)

    assert flights.published(flown) == flights.expected()


def test_a_broker_that_dies_changes_nothing(
    flown: Broker, environment: Callable[[], StreamExecutionEnvironment], tmp_path: Path
) -> None:
    killed = threading.Event()

    def kill_and_start() -> None:
        flown.kill()
        flown.start()
        killed.set()

    client = flights.start(environment(), flown.address, tmp_path)
    client.add_listener(on_checkpoint(2, kill_and_start))
    assert killed.wait(60)
    assert_no_row_is_there_twice(flown)
    client.wait(timeout=PATIENCE_S)

    assert flights.published(flown) == flights.expected()


def test_a_driver_that_dies_changes_nothing(
    flown: Broker, environment: Callable[[], StreamExecutionEnvironment], tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "tests.connectors.kafka.flights", flown.address, str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        too_late = threading.Timer(PATIENCE_S, process.kill)
        too_late.start()
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        too_late.cancel()
    assert process.returncode == -signal.SIGKILL
    assert_no_row_is_there_twice(flown)

    env = environment()
    env.from_checkpoint("latest")
    flights.start(env, flown.address, tmp_path).wait(timeout=PATIENCE_S)

    assert flights.published(flown) == flights.expected()


def test_what_cannot_be_read_is_told_before_the_job_runs(
    broker: Broker, environment: Callable[[], StreamExecutionEnvironment], tmp_path: Path
) -> None:
    env = environment()
    source = KafkaSource.of_topics(broker.address, "nowhere").bounded(OffsetsInitializer.latest())
    env.from_source(source, WatermarkStrategy.no_watermarks(), uid="orders").sink_to(ConsoleSink())

    with pytest.raises(Exception, match=r"(?s)'orders'.*there is no topic nowhere at"):
        env.execute("lost")
