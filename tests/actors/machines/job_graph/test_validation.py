"""A job graph from a message is validated, because any client may have built it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    JobType,
    JobVertex,
    OperatorKind,
    ResultPartitionType,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex

BLOCKING = ResultPartitionType.BLOCKING
SOURCE, SINK = vertex("source", outputs=1), vertex("sink", reads=("source",))

READS_WHAT_IS_WHOLE = replace(SINK, inputs=(replace(SINK.inputs[0], result_partition_type=BLOCKING),))


def batch_graph(*vertices: JobVertex) -> JobGraph:
    return replace(graph_of(*vertices), job_type=JobType.BATCH, schedule_mode=ScheduleMode.PIPELINED_REGION)


def regions(*vertices: JobVertex) -> JobGraph:
    return replace(graph_of(*vertices), schedule_mode=ScheduleMode.PIPELINED_REGION)


def with_variable(reader: JobVertex, **edge: Any) -> JobVertex:
    said = {
        "broadcast_variable": "rates",
        "result_partition_type": BLOCKING,
        "ship_strategy": ShipStrategy.BROADCAST,
        **edge,
    }
    return replace(reader, inputs=(replace(reader.inputs[0], **said),))


UNFIT: dict[str, tuple[JobGraph, str]] = {
    "nothing in it": (graph_of(), "no vertex"),
    "a vertex twice": (graph_of(SOURCE, SOURCE), "vertex id 'source'"),
    "a uid twice": (
        graph_of(SOURCE, SINK, replace(vertex("third"), operators=SINK.operators)),
        "uid 'sink' occurs twice",
    ),
    "a vertex without operators": (graph_of(replace(SOURCE, operators=(), outputs=())), "'source' has no operator"),
    "no slots": (graph_of(replace(SOURCE, slot_sharing_group=""), SINK), "'source' has no slot sharing group"),
    "no parallelism": (graph_of(replace(SOURCE, parallelism=0)), "'source': the parallelism is 0"),
    "too much parallelism": (graph_of(replace(SOURCE, parallelism=129)), "above the maximum parallelism 128"),
    "an input that comes later": (graph_of(SINK, SOURCE), "'source', which must come before"),
    "an output that is not there": (
        graph_of(replace(SOURCE, outputs=()), SINK),
        "'sink' reads output 0 of 'source', which does not exist",
    ),
    "two readers of an output": (graph_of(SOURCE, SINK, vertex("other", reads=("source",))), "two readers"),
    "forward to another parallelism": (
        graph_of(SOURCE, vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.FORWARD)),
        "'source' has 1 subtasks and 'sink' has 2",
    ),
    "an output that is read when it is written": (
        graph_of(SOURCE, replace(SINK, inputs=(replace(SINK.inputs[0], result_partition_type=BLOCKING),))),
        "'sink' reads a BLOCKING output",
    ),
    "a batch job that reads what is being made": (
        batch_graph(SOURCE, SINK),
        "'sink' reads a PIPELINED_BOUNDED output, but the outputs of a BATCH job must be BLOCKING",
    ),
    "a batch job whose tasks all run at once": (
        replace(batch_graph(SOURCE, READS_WHAT_IS_WHOLE), schedule_mode=ScheduleMode.EAGER),
        "it must be PIPELINED_REGION or LAZY_FROM_SOURCES",
    ),
    "a batch job with checkpoints": (
        replace(
            batch_graph(SOURCE, READS_WHAT_IS_WHOLE),
            checkpointing=CheckpointingSettings(directory="/checkpoints", interval_ms=100),
        ),
        "takes a single checkpoint, at its end",
    ),
    "a broadcast variable that is read while it is made": (
        regions(SOURCE, with_variable(SINK, result_partition_type=ResultPartitionType.PIPELINED_BOUNDED)),
        "'sink' reads a PIPELINED_BOUNDED output, but the outputs of a STREAMING job must be BLOCKING",
    ),
    "a part of a broadcast variable for each subtask": (
        regions(SOURCE, with_variable(SINK, ship_strategy=ShipStrategy.REBALANCE)),
        "'sink' reads the broadcast variable 'rates' by a REBALANCE edge",
    ),
    "a reader of a broadcast variable that begins at once": (
        graph_of(SOURCE, with_variable(SINK)),
        "schedule mode EAGER, but 'sink' reads the broadcast variable 'rates'.* set PIPELINED_REGION",
    ),
    "a sink beside an output of a batch job": (
        batch_graph(
            replace(SOURCE, operators=(*SOURCE.operators, replace(SINK.operators[0], kind=OperatorKind.SINK))),
            replace(vertex("other", reads=("source",)), inputs=READS_WHAT_IS_WHOLE.inputs),
        ),
        "'source' of a BATCH job has both a sink",
    ),
    "co-located in two slots": (
        graph_of(
            replace(SOURCE, co_location_group="together"),
            replace(SINK, co_location_group="together", slot_sharing_group="apart"),
        ),
        "'source' and 'sink' are in the co-location group 'together'",
    ),
    "nobody reads an output": (graph_of(SOURCE), "no vertex reads output 0 of the vertex 'source'"),
}


@pytest.mark.parametrize(("graph", "named"), UNFIT.values(), ids=UNFIT)
def test_an_invalid_graph_is_refused_with_the_invalid_part(graph: JobGraph, named: str) -> None:
    with pytest.raises(GraphError, match=named):
        check_job_graph(graph)


def test_two_operators_with_one_id_are_refused() -> None:
    same = replace(vertex("third").operators[0], operator_id=SINK.operators[0].operator_id)
    third = replace(vertex("third"), vertex_id=JobVertexId("third"), operators=(same,))

    with pytest.raises(GraphError, match="operator id 'sink'"):
        check_job_graph(graph_of(SOURCE, SINK, third))


def test_a_valid_graph_is_accepted() -> None:
    check_job_graph(graph_of(SOURCE, SINK))


def test_a_batch_job_whose_tasks_read_finished_results_is_accepted() -> None:
    check_job_graph(batch_graph(SOURCE, READS_WHAT_IS_WHOLE))


def test_a_streaming_job_may_read_finished_broadcast_variables() -> None:
    check_job_graph(regions(SOURCE, with_variable(SINK)))
