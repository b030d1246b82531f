"""Tests chains: trees of the operators of a vertex, and which trees are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.graph.job_graph import JobVertex, Operator, OperatorKind, ShipStrategy
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import AllocationId, JobId, JobVertexId, OperatorId, attempt_id, partition_id
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.errors import ChainError
from flykka.spark_bridge.operators.bound_chain import bound_chain
from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.stateless import SideOutputCode, TransformCode
from flykka.spark_bridge.operators.window import LATE_DATA

SOURCE = SourceCode(source=FileSource.parquet("in", event_time="at"))
TRANSFORM = TransformCode(function=lambda rows: rows)
SINK = SinkCode(sink=FileSink.parquet("out"))


def vertex_of_codes(
    registry: CodeRegistry, *operators: tuple[str, OperatorCode | KeyByCode, int | None], outputs: str = ""
) -> JobVertex:
    created = tuple(
        Operator(
            operator_id=OperatorId(uid),
            ref=registry.bind(uid, code),
            name=uid,
            kind=OperatorKind.STATELESS,
            input_operator=reads,
        )
        for uid, code, reads in operators
    )
    return JobVertex(
        vertex_id=JobVertexId("v"),
        name="v",
        operators=created,
        parallelism=1,
        max_parallelism=128,
        outputs=tuple(OperatorId(uid) for uid in outputs.split()),
    )


def deployment_descriptor(vertex: JobVertex) -> TaskDeploymentDescriptor:
    attempt = attempt_id(JobId("job"), vertex.vertex_id, 0, 0)
    return TaskDeploymentDescriptor(
        job_id=JobId("job"),
        attempt=attempt,
        attempt_number=0,
        vertex=vertex,
        subtask=0,
        allocation_id=AllocationId("a"),
        outputs=tuple(
            ResultPartitionDescriptor(
                partition_id=partition_id(attempt, number),
                output=number,
                subpartitions=1,
                ship_strategy=ShipStrategy.FORWARD,
                max_parallelism=128,
            )
            for number in range(len(vertex.outputs))
        ),
        inputs=(),
        checkpoint_directory="checkpoints",
    )


def test_consumers_and_outputs_are_attached_to_the_operator_they_read() -> None:
    registry = CodeRegistry()
    operators = (("s", SOURCE, None), ("t", TRANSFORM, 0), ("w", SINK, 1), ("x", SINK, 0))

    head = bound_chain(deployment_descriptor(vertex_of_codes(registry, *operators, outputs="t s t")), registry).head

    transform, direct = head.readers
    assert [link.uid for link in head.walk()] == ["s", "t", "w", "x"]
    assert [output.output for output in head.outputs] == [1]
    assert [output.output for output in transform.outputs] == [0, 2]
    assert (direct.uid, direct.outputs) == ("x", ())


def test_a_chain_has_an_event_time_and_a_name() -> None:
    registry = CodeRegistry()

    chain = bound_chain(deployment_descriptor(vertex_of_codes(registry, ("s", SOURCE, None), ("w", SINK, 0))), registry)

    assert chain.event_time == "at"
    assert chain.name == "s -> w"
    assert chain.computes


def test_a_chain_is_named_by_the_users_operator_names() -> None:
    registry = CodeRegistry()
    operators = vertex_of_codes(registry, ("source-1", SOURCE, None), ("stateless-2", TRANSFORM, 0), ("w", SINK, 1))
    registry.bind("source-1", SOURCE, name="orders")
    registry.bind("stateless-2", TRANSFORM, name="with_column(price)")

    chain = bound_chain(deployment_descriptor(operators), registry)

    assert chain.name == "orders -> with_column(price) -> w"
    assert [link.uid for link in chain.head.walk()] == ["source-1", "stateless-2", "w"]


def test_a_chain_without_consumers_computes_no_rows() -> None:
    registry = CodeRegistry()

    assert not bound_chain(
        deployment_descriptor(vertex_of_codes(registry, ("s", SOURCE, None), ("t", TRANSFORM, 0))), registry
    ).computes


def test_a_source_must_be_the_head_of_a_chain() -> None:
    registry = CodeRegistry()

    with pytest.raises(ChainError, match="'s' must stand at the head"):
        bound_chain(
            deployment_descriptor(vertex_of_codes(registry, ("t", TRANSFORM, None), ("s", SOURCE, 0))), registry
        )


def test_a_sink_has_no_consumers() -> None:
    registry = CodeRegistry()

    with pytest.raises(ChainError, match="the sink 'w' has readers"):
        bound_chain(deployment_descriptor(vertex_of_codes(registry, ("w", SINK, None), ("t", TRANSFORM, 0))), registry)


@pytest.mark.parametrize("reads", [None, 0])
def test_a_late_row_output_must_follow_windows(reads: int | None) -> None:
    registry = CodeRegistry()
    late = ("l", SideOutputCode(tag=LATE_DATA), reads)
    operators = [late] if reads is None else [("s", SOURCE, None), late]

    with pytest.raises(ChainError, match="side output"):
        bound_chain(deployment_descriptor(vertex_of_codes(registry, *operators)), registry)


def test_a_chain_has_exactly_one_head() -> None:
    registry = CodeRegistry()
    two = vertex_of_codes(registry, ("s", SOURCE, None), ("t", TRANSFORM, 0))
    parted = replace(two, operators=tuple(replace(operator, input_operator=None) for operator in two.operators))

    with pytest.raises(ChainError, match="2 heads"):
        bound_chain(deployment_descriptor(parted), registry)


def test_key_by_is_not_an_operator_of_a_chain() -> None:
    registry = CodeRegistry()

    with pytest.raises(ChainError, match="'k'"):
        bound_chain(
            deployment_descriptor(vertex_of_codes(registry, ("s", SOURCE, None), ("k", KeyByCode(columns=("a",)), 0))),
            registry,
        )
