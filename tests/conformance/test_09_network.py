"""Area 09: the exchange, kind by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.case_files import Case, cases_of
from tests.conformance.gate_adapter import run_gate, run_gate_property, run_union_gate
from tests.conformance.partition_request_adapter import run_partition_request
from tests.conformance.receiver_adapter import GATE_WORDS, run_receiver, run_receiving_gate
from tests.conformance.sender_adapter import run_partition, run_sender

NOT_YET = (
    ("subpartition", "bytes of buffers that fill up: a batch is complete when it is made"),
    ("channel_queue", "unaligned barriers overtake data: a later piece"),
    ("global_pool", "memory is Spark's; credits bound the batches"),
    ("local_pool", "as above"),
    ("task_network_memory", "as above"),
    ("writer", "records are split by Spark, in one job per batch"),
    ("task_events", "no events go upstream"),
    ("recv-empty-data", "a batch without rows is a batch: it takes a credit and has to be released"),
    ("recv-failed-notification", "a channel gets no credit before it has asked: a backlog is the answer to a request"),
    ("recv-blocked-upstream", "the sender goes on behind a barrier, within its credits; the gate does not read on"),
    ("recv-failure-of-one-channel", "taking a credit is arithmetic and does not raise"),
    ("recv-duplicate-cancel", "an unknown subpartition has no known producer; a second cancel is ignored: unit-tested"),
    ("request-failed-asks-for-producer-state", "the JobMaster cancels the consumers of a failed producer by itself"),
    ("request-failed-does-not-block-network", "no thread waits in the exchange"),
    ("request-connection-fails", "a TaskManager that is gone is told of by DeathWatch, to the JobMaster"),
    ("request-update-before-first-request", "producers are placed before their consumers are deployed"),
    ("request-unknown-channels-resolved", "as above"),
    ("request-backwards-event-before-known", "no events go upstream"),
    ("send-cancel-enqueued", "between actors there is no connection in front of which a reader waits"),
    ("send-blocked-after-aligned-barrier", "see recv-blocked-upstream"),
    ("gate-released-while-waiting", "no thread waits in a gate"),
    ("gate-unknown-channel-declines-checkpoint", "producers are placed before their consumers are deployed"),
    ("partition-release-policy-blocking", "there are no blocking partitions"),
    ("partition-add-after-finish-blocking", "as above"),
    ("partition-view-unregistered", "the TaskManager answers for partitions that no task of it has"),
)
"""Kinds and cases that the machines do not carry, and why."""

ADAPTERS: dict[str, Callable[[Case], None]] = {
    "receiver": run_receiver,
    "sender": run_sender,
    "partition": run_partition,
    "partition_request": run_partition_request,
    "gate": run_gate,
    "union_gate": run_union_gate,
    "gate_property": run_gate_property,
}

CASES = cases_of("09_network")
LEFT_OUT = {name for name, _ in NOT_YET}
COVERED = [case for case in CASES if not LEFT_OUT & {case["id"], case["given"]["kind"]}]


@pytest.mark.parametrize("case", COVERED, ids=lambda case: case["id"])
def test_the_exchange_does_what_the_case_says(case: Case) -> None:
    run = ADAPTERS[case["given"]["kind"]]
    if run is run_receiver and GATE_WORDS & case["expect"].keys():
        run = run_receiving_gate

    run(case)


def test_what_is_not_covered_is_named() -> None:
    kinds, ids = {case["given"]["kind"] for case in CASES}, {case["id"] for case in CASES}

    assert kinds | ids >= LEFT_OUT
    assert not LEFT_OUT & ADAPTERS.keys()
    assert Counter(case["given"]["kind"] for case in COVERED) == {
        "receiver": 6,
        "sender": 3,
        "partition": 6,
        "partition_request": 4,
        "gate": 8,
        "union_gate": 1,
        "gate_property": 2,
    }
