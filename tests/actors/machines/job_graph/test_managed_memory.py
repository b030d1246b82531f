"""The managed memory of a slot is divided evenly among the operators that keep state by key."""

from __future__ import annotations

from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.stream_graph import StreamGraph
from flykka.actors.machines.slots.slot_table import with_managed_memory
from flykka.messages.graph.job_graph import CheckpointingSettings, OperatorKind, ResourceSpec
from flykka.messages.wire.ids import JobId
from tests.actors.machines.job_graph.programs import edge, keyed_edge, node
from tests.actors.machines.scheduling.descriptors import descriptor


def fractions(second_group: str | None) -> dict[str, float]:
    graph = StreamGraph()
    graph.add_node(node("orders", OperatorKind.SOURCE))
    graph.add_node(node("counts", OperatorKind.GROUP_AGGREGATE))
    graph.add_node(node("sums", OperatorKind.WINDOW_AGGREGATE, group=second_group))
    graph.add_node(node("out", OperatorKind.SINK))
    graph.add_edge(keyed_edge("orders", "counts"))
    graph.add_edge(keyed_edge("counts", "sums"))
    graph.add_edge(edge("sums", "out"))
    made = job_graph(
        graph,
        job_id=JobId("job"),
        name="job",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=1,
        heartbeat_timeout_ms=1,
    )
    return {vertex.operators[0].name: vertex.managed_memory_fraction for vertex in made.vertices}


def test_operators_in_one_slot_share_its_managed_memory() -> None:
    assert fractions(None) == {"orders": 0.0, "counts": 0.5, "sums": 0.5}


def test_a_single_operator_gets_all_managed_memory_of_its_slot() -> None:
    assert fractions("apart") == {"orders": 0.0, "counts": 1.0, "sums": 1.0}


def test_a_task_gets_its_share_in_bytes_if_managed_memory_is_configured() -> None:
    task = descriptor("a")

    assert with_managed_memory(task, ResourceSpec(heap_mib=9)).managed_memory_bytes is None
    assert with_managed_memory(task, ResourceSpec(managed_mib=9)).managed_memory_bytes == 0
