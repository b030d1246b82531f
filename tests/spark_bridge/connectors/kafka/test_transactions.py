"""Tests that a reader of committed records sees rows once, whichever process is killed in a sink's transaction."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.connectors.broker import Broker
from flykka.connectors import SinkError
from tests.spark_bridge.connectors.kafka.gate import DEADLINE_S, Gate, Moment, Request
from tests.spark_bridge.connectors.kafka.publisher import ROWS, publish, publishing

pytestmark = pytest.mark.slow

BEFORE_PRODUCE = Moment(request=Request.PRODUCE)
BEFORE_MARK = Moment(request=Request.TXN_OFFSET_COMMIT)
BEFORE_COMMIT = Moment(request=Request.END_TXN)
COMMITTED = Moment(request=Request.END_TXN, of_answer=True)


each_moment = pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, id=str(moment), marks=() if moment is BEFORE_COMMIT else pytest.mark.long)
        for moment in (BEFORE_PRODUCE, BEFORE_MARK, BEFORE_COMMIT, COMMITTED)
    ],
)


@each_moment
def test_a_killed_process_leaves_its_transaction_to_the_next_attempt(
    kafka: Broker, gate: Gate, topic: str, moment: Moment
) -> None:
    kafka.create(topic)
    with gate.hold(moment) as held, publishing(gate.address, topic) as process:
        held.wait()
        process.kill()
        process.wait(DEADLINE_S)

        assert kafka.values(topic) == ROWS if moment is COMMITTED else kafka.visible_values(topic) == []
        publish(kafka.address, topic)

    assert kafka.values(topic) == ROWS


@each_moment
def test_a_broker_killed_in_a_transaction_has_the_rows_once(
    kafka: Broker, gate: Gate, topic: str, moment: Moment
) -> None:
    kafka.create(topic)
    with ThreadPoolExecutor(1) as pool, gate.hold(moment) as held:
        attempt = pool.submit(publish, gate.address, topic)
        held.wait()
        kafka.kill()
        held.release()
        kafka.start()
        # Either the attempt continues, or the next attempt repeats the whole transaction.
        if isinstance(attempt.exception(2 * DEADLINE_S), SinkError):
            publish(kafka.address, topic)

    assert kafka.values(topic) == ROWS
    assert publish(kafka.address, topic) == 0
    assert kafka.values(topic) == ROWS


@each_moment
def test_records_of_a_paused_and_replaced_process_are_not_committed(
    kafka: Broker, gate: Gate, topic: str, moment: Moment
) -> None:
    kafka.create(topic)
    with gate.hold(moment) as held, publishing(gate.address, topic) as paused:
        held.wait()
        paused.send_signal(signal.SIGSTOP)
        publish(kafka.address, topic)
        held.release()
        paused.send_signal(signal.SIGCONT)
        _, words = paused.communicate(timeout=DEADLINE_S)

    assert kafka.values(topic) == ROWS
    assert not kafka.has_open_transaction(topic)
    assert (paused.returncode == 0) == (moment is COMMITTED)
    assert moment is COMMITTED or "another attempt has taken over" in words


def test_rows_of_a_timed_out_transaction_are_published_by_the_next_attempt(
    kafka: Broker, gate: Gate, topic: str
) -> None:
    kafka.create(topic)
    with gate.hold(BEFORE_COMMIT) as held, publishing(gate.address, topic, timeout_ms=1_000) as process:
        held.wait()
        process.send_signal(signal.SIGSTOP)
        wait_until_aborted(kafka, topic)
        held.release()
        process.send_signal(signal.SIGCONT)
        _, words = process.communicate(timeout=DEADLINE_S)

    assert process.returncode != 0
    assert "raise transaction_timeout_ms of the sink" in words
    assert kafka.values(topic) == []
    assert publish(kafka.address, topic) == len(ROWS)
    assert kafka.values(topic) == ROWS


def wait_until_aborted(broker: Broker, topic: str) -> None:
    """Wait until the broker has aborted the transaction by itself."""
    deadline = time.monotonic() + DEADLINE_S
    while broker.has_open_transaction(topic):
        assert time.monotonic() < deadline
