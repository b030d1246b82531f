"""Tests jobs from Kafka into Kafka and Delta: whichever process is killed, a reader sees every row once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import ConsoleSink, KafkaSource, OffsetsInitializer, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from tests.spark_bridge.connectors.kafka import flights

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60


@pytest.fixture
def flown(broker: Broker, tmp_path: Path) -> Broker:
    """A broker that has the flights and has written them to disk."""
    flights.send(broker, tmp_path)
    if broker.program.forgets:
        broker.stop()
        broker.start()
    return broker


@pytest.fixture
def environment(spark: SparkSession) -> Iterator[Callable[[], StreamExecutionEnvironment]]:
    environments: list[StreamExecutionEnvironment] = []

    def make() -> StreamExecutionEnvironment:
        environments.append(
            StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=2)
        )
        return environments[-1]

    yield make
    for env in environments:
        env.close()


@pytest.fixture
def published(flown: Broker, target: str, tmp_path: Path) -> Callable[[], list[tuple[Any, ...]]]:
    """A function that returns the published rows after all transactions have ended."""
    return lambda: flights.in_kafka(flown, tmp_path) if target == "kafka" else flights.in_delta(tmp_path)


def on_checkpoint(number: int, act: Callable[[], None]) -> Callable[[Message], None]:
    """Call `act` on another thread when `number` checkpoints have completed."""
    left = [number]

    def listen(message: Message) -> None:
        if isinstance(message, CheckpointCompleted):
            left[0] -= 1
            if left[0] == 0:
                threading.Thread(target=act, daemon=True).start()

    return listen


@pytest.mark.long
@pytest.mark.parametrize("target", ["kafka", "delta"])
def test_output_is_exactly_once_when_a_task_manager_is_killed(
    flown: Broker,
    environment: Callable[[], StreamExecutionEnvironment],
    target: str,
    published: Callable[[], list[tuple[Any, ...]]],
    tmp_path: Path,
) -> None:
    env = environment()
    recipients: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = recipient.path.startswith("/user/task-manager-") and isinstance(message, CommitCheckpoint)
        if is_moment:
            recipients.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    kill = kill_when(env.cluster.system, lambda: env.cluster.system.find(recipients[-1]), matches, 2)

    client = flights.start_flights_job(env, flown.address, tmp_path, target)
    assert kill.wait(timeout=60)
    flights.assert_none_is_there_twice(published())
    client.wait(timeout=PATIENCE_S)

    assert published() == flights.expected_counts()


# test_transactions.py kills a broker within a transaction in each run.
@pytest.mark.long
@pytest.mark.parametrize("target", ["kafka", "delta"])
def test_output_is_exactly_once_when_a_broker_is_killed(
    flown: Broker,
    environment: Callable[[], StreamExecutionEnvironment],
    target: str,
    published: Callable[[], list[tuple[Any, ...]]],
    tmp_path: Path,
) -> None:
    died = threading.Event()

    def kill_and_start() -> None:
        # Kafka retains acknowledged records if its process is killed; other brokers may lose those of the last
        # second.
        if target == "kafka" and flown.program.forgets:
            flown.stop()
        else:
            flown.kill()
        flown.start()
        died.set()

    client = flights.start_flights_job(environment(), flown.address, tmp_path, target)
    client.add_listener(on_checkpoint(2, kill_and_start))
    assert died.wait(60)
    flights.assert_none_is_there_twice(published())
    client.wait(timeout=PATIENCE_S)

    assert published() == flights.expected_counts()


@pytest.mark.long
@pytest.mark.parametrize("target", ["kafka", "delta"])
def test_output_is_exactly_once_when_a_driver_is_killed(
    flown: Broker,
    environment: Callable[[], StreamExecutionEnvironment],
    target: str,
    published: Callable[[], list[tuple[Any, ...]]],
    tmp_path: Path,
) -> None:
    program = [
        sys.executable,
        "-m",
        "tests.spark_bridge.connectors.kafka.flights",
        flown.address,
        str(tmp_path),
        target,
    ]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        too_late = threading.Timer(PATIENCE_S, process.kill)
        too_late.start()
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        too_late.cancel()
    assert process.returncode == -signal.SIGKILL
    flights.assert_none_is_there_twice(published())

    env = environment()
    env.from_checkpoint("latest")
    flights.start_flights_job(env, flown.address, tmp_path, target).wait(timeout=PATIENCE_S)

    assert published() == flights.expected_counts()


def test_unreadable_topics_are_reported_before_the_job_runs(
    broker: Broker, environment: Callable[[], StreamExecutionEnvironment], tmp_path: Path
) -> None:
    env = environment()
    source = KafkaSource.of_topics(broker.address, "nowhere").bounded(OffsetsInitializer.latest())
    env.from_source(source, WatermarkStrategy.no_watermarks(), uid="orders").sink_to(ConsoleSink())

    with pytest.raises(Exception, match=r"(?s)'orders'.*there is no topic nowhere at"):
        env.execute("lost")
