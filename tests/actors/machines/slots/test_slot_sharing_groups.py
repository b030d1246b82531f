"""The minimum number of slots of a job."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.slots.slot_sharing_groups import slots_needed_at_once
from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, OperatorKind
from tests.actors.machines.graph.graphs import graph_of, vertex


def sink_vertex(name: str, parallelism: int, *, group: str = "default") -> JobVertex:
    made = vertex(name, parallelism, reads=("source",), group=group)
    return replace(made, operators=tuple(replace(each, kind=OperatorKind.SINK) for each in made.operators))


def batch_graph(*vertices: JobVertex) -> JobGraph:
    return replace(graph_of(*vertices), job_type=JobType.BATCH)


def test_a_streaming_job_needs_slots_for_all_its_tasks() -> None:
    assert slots_needed_at_once(graph_of(vertex("source", 3, outputs=1), sink_vertex("sink", 2))) == 3
    assert slots_needed_at_once(graph_of(vertex("source", 3, outputs=1), sink_vertex("sink", 2, group="own"))) == 5


def test_tasks_of_a_batch_job_share_slots_except_sinks() -> None:
    assert slots_needed_at_once(batch_graph(vertex("source", 3, outputs=1))) == 1
    assert slots_needed_at_once(batch_graph(vertex("source", 3, outputs=1), sink_vertex("sink", 2))) == 2


def test_sinks_of_a_batch_job_without_slot_sharing_hold_separate_slots() -> None:
    apart = (sink_vertex("one", 2, group="one"), sink_vertex("other", 2, group="other"))

    assert slots_needed_at_once(batch_graph(vertex("source", 3, outputs=1, group="one"), *apart)) == 4
    assert slots_needed_at_once(batch_graph(vertex("source", 3, outputs=1), *apart)) == 5
