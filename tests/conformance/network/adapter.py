"""Area 09: the module that translates each kind of case."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.case_files import Case, UnknownWordError
from tests.conformance.network.channel_queue import run_channel_queue
from tests.conformance.network.gate import run_gate, run_gate_property, run_union_gate
from tests.conformance.network.partition import run_partition
from tests.conformance.network.partition_request import run_partition_request
from tests.conformance.network.pools import run_global_pool, run_local_pool, run_task_network_memory
from tests.conformance.network.receiver import run_receiver
from tests.conformance.network.sender import run_sender
from tests.conformance.network.subpartition import run_subpartition
from tests.conformance.network.writer import run_writer

KINDS: dict[str, Callable[[Case], None]] = {
    "receiver": run_receiver,
    "sender": run_sender,
    "partition": run_partition,
    "subpartition": run_subpartition,
    "partition_request": run_partition_request,
    "channel_queue": run_channel_queue,
    "gate": run_gate,
    "union_gate": run_union_gate,
    "gate_property": run_gate_property,
    "global_pool": run_global_pool,
    "local_pool": run_local_pool,
    "task_network_memory": run_task_network_memory,
    "writer": run_writer,
}


def run_case(case: Case) -> None:
    kind = case["given"]["kind"]
    if kind not in KINDS:
        raise UnknownWordError(f"kind: {kind}")
    KINDS[kind](case)
