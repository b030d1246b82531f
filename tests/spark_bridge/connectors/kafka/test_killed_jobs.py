"""Tests jobs whose broker or driver is killed at a moment of a transaction: a reader sees every row once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.connectors.broker import ApacheKafka, Broker, program, running_broker
from flykka import StreamExecutionEnvironment
from tests.spark_bridge.connectors.kafka import flights
from tests.spark_bridge.connectors.kafka.gate import Gate, Moment, Request, running_gate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
]

PATIENCE_S = 180
MOMENTS = [
    Moment(request=Request.PRODUCE),
    Moment(request=Request.TXN_OFFSET_COMMIT),
    Moment(request=Request.END_TXN),
    Moment(request=Request.END_TXN, of_answer=True),
]


@pytest.fixture
def gate() -> Iterator[Gate]:
    if not isinstance(program(), ApacheKafka):
        pytest.skip(f"{program().name} cannot be reached through a proxy, and forgets what it has acknowledged")
    with running_gate() as running:
        yield running


@pytest.fixture
def flown(gate: Gate, tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "kafka", listeners=(gate.listener,)) as broker:
        flights.send(broker, tmp_path)
        yield broker


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_output_is_exactly_once_when_a_broker_is_killed_in_a_transaction(
    flown: Broker, gate: Gate, env: StreamExecutionEnvironment, moment: Moment, tmp_path: Path
) -> None:
    with gate.hold(moment) as held:
        client = flights.start_flights_job(env, gate.address, tmp_path, "kafka")
        held.wait()
        flown.kill()
    flown.start()
    flights.assert_none_is_there_twice(flights.visible_in_kafka(flown, tmp_path))
    client.wait(timeout=PATIENCE_S)

    assert flights.in_kafka(flown, tmp_path) == flights.expected_counts()


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_output_is_exactly_once_when_a_driver_is_killed_in_a_transaction(
    flown: Broker, gate: Gate, env: StreamExecutionEnvironment, moment: Moment, tmp_path: Path
) -> None:
    arguments = [
        sys.executable,
        "-m",
        "tests.spark_bridge.connectors.kafka.flights",
        gate.address,
        str(tmp_path),
        "kafka",
    ]
    with gate.hold(moment) as held, subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        try:
            held.wait()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        flights.assert_none_is_there_twice(flights.visible_in_kafka(flown, tmp_path))

        env.from_checkpoint("latest")
        client = flights.start_flights_job(env, flown.address, tmp_path, "kafka")
        held.release()
        client.wait(timeout=PATIENCE_S)

    assert flights.in_kafka(flown, tmp_path) == flights.expected_counts()
