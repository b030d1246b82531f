"""Tests that code is bound by uid, and that mismatches are refused with the names of the operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import UnboundOperatorError
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobEdge,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.program.call_site import CallSite


def nothing(rows: object) -> object:
    return rows


def graph(*refs: OperatorRef, key_by: OperatorRef | None = None) -> JobGraph:
    operators = tuple(
        Operator(operator_id=OperatorId(ref.uid), ref=ref, name=ref.uid, kind=OperatorKind.STATELESS) for ref in refs
    )
    edge = JobEdge(source=JobVertexId("v"), source_output=0, ship_strategy=ShipStrategy.HASH, key_by=key_by)
    vertex = JobVertex(
        vertex_id=JobVertexId("v"), name="v", operators=operators, parallelism=1, max_parallelism=1, inputs=(edge,)
    )
    return JobGraph(
        job_id=JobId("job"),
        name="flights",
        vertices=(vertex,),
        checkpointing=CheckpointingSettings(directory="d"),
        heartbeat_interval_ms=1_000,
        heartbeat_timeout_ms=10_000,
    )


def test_bound_code_is_found_by_name() -> None:
    registry = CodeRegistry()
    code = SinkCode(sink=FileSink.parquet("out"))

    ref = registry.bind("sink", code)

    assert registry.resolve(ref) is code


def test_a_second_run_of_the_program_yields_the_same_names() -> None:
    first, second = CodeRegistry(), CodeRegistry()

    one = first.bind("source", SourceCode(source=FileSource.parquet("a")))
    other = second.bind("source", SourceCode(source=FileSource.parquet("b")))

    assert one == other


def test_a_job_keeps_its_code_if_another_job_uses_its_uids() -> None:
    registry = CodeRegistry()
    first, second = (SourceCode(source=FileSource.parquet(path)) for path in ("a", "b"))
    one = replace(graph(registry.bind("source", first, name="of one")), job_id=JobId("one"))
    registry.assign(one)
    other = replace(graph(ref := registry.bind("source", second, name="of other")), job_id=JobId("other"))
    registry.assign(other)

    registry.retain([one, other])

    assert [registry.of_job(job.job_id).resolve(ref) for job in (one, other)] == [first, second]
    assert [registry.of_job(job.job_id).name("source") for job in (one, other)] == ["of one", "of other"]
    assert registry.of_job(JobId("recovered")).resolve(ref) is second

    registry.retain([other])
    assert registry.of_job(JobId("one")) is registry


def test_an_unknown_uid_is_refused_with_the_known_ones() -> None:
    registry = CodeRegistry()
    registry.bind("source", KeyByCode(columns=("a",)))

    with pytest.raises(UnboundOperatorError, match="no operator 'sorce' in this application; it has: source"):
        registry.resolve(OperatorRef(uid="sorce", fingerprint=""))


def test_code_of_another_structure_is_refused_with_the_difference() -> None:
    registry = CodeRegistry()
    ref = registry.bind("keys", KeyByCode(columns=("a",)))
    registry.bind("keys", KeyByCode(columns=("a", "b")))

    with pytest.raises(UnboundOperatorError, match=r"created for key_by\(1\), but this application has key_by\(2\)"):
        registry.resolve(ref)


def test_a_mismatched_graph_is_refused_with_every_operator() -> None:
    registry = CodeRegistry()
    good = registry.bind("good", TransformCode(function=nothing))  # type: ignore[arg-type]
    missing = OperatorRef(uid="missing", fingerprint="transform")
    changed = replace(good, fingerprint="window")
    lost = OperatorRef(uid="keys", fingerprint="key_by(1)")

    with pytest.raises(UnboundOperatorError) as refused:
        registry.check(graph(good, missing, changed, key_by=lost))

    assert all(name in str(refused.value) for name in ("'flights'", "'missing'", "'good' has changed", "'keys'"))


def test_a_matching_graph_is_accepted() -> None:
    registry = CodeRegistry()
    keys = registry.bind("keys", KeyByCode(columns=("a",)))

    registry.check(graph(keys, key_by=keys))


def test_code_without_a_job_graph_is_released() -> None:
    registry = CodeRegistry()
    over = registry.bind("over", TransformCode(function=nothing))  # type: ignore[arg-type]
    runs = registry.bind("runs", TransformCode(function=nothing))  # type: ignore[arg-type]
    keys = registry.bind("runs-keys", KeyByCode(columns=("a",)))

    registry.retain([graph(runs, key_by=keys)])

    registry.check(graph(runs, key_by=keys))
    with pytest.raises(UnboundOperatorError, match="no operator 'over' in this application; it has: runs, runs-keys"):
        registry.resolve(over)


def test_an_error_uses_the_operators_user_visible_name() -> None:
    registry = CodeRegistry()
    site = CallSite(file="app.py", line=12)

    registry.bind("counts-local", KeyByCode(columns=("a",)), call_site=site, name="counts")

    assert registry.describe("counts-local") == "'counts' (app.py:12)"
    assert str(registry.user_line("counts-local")) == '  File "app.py", line 12, in counts'
