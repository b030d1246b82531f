"""An operator finds its state by its uid. Errors about incompatible state name the operator and the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flykka.actors.machines.job_graph.operator_ids import operator_id
from flykka.actors.machines.state.handles import operator_metadata
from flykka.actors.machines.state.operator_state import list_state
from flykka.client.state_compatibility import OperatorMatch, StateCompatibility, state_compatibility
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorCoordinatorState, TaskStateEntry
from flykka.messages.graph.job_graph import JobGraph, JobVertex, OperatorKind, OperatorRef, SessionSetting
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    KeyGroupRange,
    OperatorStateMode,
    OperatorStateSchema,
    OperatorSubtaskState,
    StagingFolder,
    StateSchema,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex, with_uids


def graph_with_uids(*vertices: JobVertex) -> JobGraph:
    return with_uids(graph_of(*vertices))


GRAPH = graph_with_uids(vertex("source", outputs=1), vertex("sums", reads=("source",)))
SUMS = StateSchema(keys="shop string", columns="sum bigint", windows="size=60000ms")


def entry(operator: str, *, max_parallelism: int = 128) -> TaskStateEntry:
    """Return list state and keyed state of an operator that ran in one subtask."""
    states = (
        OperatorSubtaskState(
            operator_id=operator_id(operator), operator_state=(list_state("own", [StagingFolder(path="s")]),)
        ),
        OperatorSubtaskState(
            operator_id=operator_id(operator), key_groups=KeyGroupRange(start=0, end=127), keyed_state=b"windows"
        ),
    )
    return TaskStateEntry(
        vertex_id=JobVertexId(operator),
        subtask=0,
        parallelism=1,
        max_parallelism=max_parallelism,
        state=TaskStateSnapshot(operators=states),
    )


def orders_checkpoint(*entries: TaskStateEntry, of: JobGraph = GRAPH) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("orders"),
        checkpoint_id=3,
        timestamp_ms=0,
        duration_ms=1,
        task_states=entries or (entry("sums"),),
        job_name="orders",
        operators=operator_metadata(of),
    )


def compatibility_with(
    job_graph: JobGraph, held: CompletedCheckpoint | None = None, *, allow_non_restored_state: bool = False
) -> StateCompatibility:
    held = held or orders_checkpoint()
    former = {operator.operator_id: operator for operator in held.operators}
    return state_compatibility(held, job_graph, former, allow_non_restored_state=allow_non_restored_state)


def replace_operator(job_graph: JobGraph, uid: str, **what: Any) -> JobGraph:
    return replace(
        job_graph,
        vertices=tuple(
            replace(
                each,
                operators=tuple(
                    replace(operator, **what) if operator.ref.uid == uid else operator for operator in each.operators
                ),
            )
            for each in job_graph.vertices
        ),
    )


def matches(compatibility: StateCompatibility) -> dict[str | None, OperatorMatch]:
    return {operator.uid: operator.match for operator in compatibility.operators}


def test_an_unchanged_job_finds_all_its_state() -> None:
    compatibility = compatibility_with(GRAPH)

    assert matches(compatibility) == {"source": OperatorMatch.MATCHED, "sums": OperatorMatch.MATCHED}
    assert [operator.state_bytes is None for operator in compatibility.operators] == [True, False]
    assert compatibility.problems == ()


def test_state_is_matched_by_a_uid_hash_that_the_user_has_set() -> None:
    stored = replace(
        orders_checkpoint(entry("of-the-structure")),
        operators=tuple(
            replace(each, operator_id=operator_id("of-the-structure"))
            if each.operator_id == operator_id("sums")
            else each
            for each in operator_metadata(GRAPH)
        ),
    )

    compatibility = compatibility_with(
        replace_operator(GRAPH, "sums", user_defined_operator_id=operator_id("of-the-structure")), stored
    )

    assert matches(compatibility) == {"source": OperatorMatch.MATCHED, "sums": OperatorMatch.MATCHED}
    assert compatibility.problems == ()


def test_a_new_operator_starts_without_state() -> None:
    wider = graph_with_uids(vertex("source", outputs=1), vertex("sums", outputs=1, reads=("source",)), vertex("new"))

    compatibility = compatibility_with(wider)

    assert matches(compatibility)["new"] is OperatorMatch.ADDED
    assert compatibility.problems == ()


def test_an_operator_without_state_may_be_removed_silently() -> None:
    compatibility = compatibility_with(
        replace_operator(graph_with_uids(vertex("sums")), "sums", kind=OperatorKind.STATELESS)
    )

    assert matches(compatibility) == {"sums": OperatorMatch.MATCHED, "source": OperatorMatch.REMOVED}
    assert compatibility.problems == ()


def test_state_without_an_operator_is_dropped_only_on_request() -> None:
    without = graph_with_uids(vertex("source"))

    refused = compatibility_with(without)
    allowed = compatibility_with(without, allow_non_restored_state=True)

    assert matches(refused) == matches(allowed) == {"source": OperatorMatch.MATCHED, "sums": OperatorMatch.REMOVED}
    [problem] = refused.problems
    assert "operators that the job does not have: 'sums' (sums). The job has 'source';" in problem
    assert "allow_non_restored_state=True (in `flykka run` --allow-non-restored-state)" in problem
    assert allowed.problems == ()


def test_an_operator_with_a_new_uid_is_suggested_by_kind() -> None:
    renamed = graph_with_uids(vertex("source", outputs=1), vertex("totals", reads=("source",)))

    compatibility = compatibility_with(renamed)

    [totals] = compatibility.operators_with(OperatorMatch.RENAMED)
    assert (totals.uid, totals.former_uid) == ("totals", "sums")
    assert "'sums' (sums), which is probably 'totals' of the job: set uid('sums')" in compatibility.problems[0]


def test_a_rename_candidate_with_the_same_name_is_preferred() -> None:
    two = graph_with_uids(vertex("source", outputs=1), vertex("a", reads=("source",)), vertex("b", reads=("source",)))
    named = replace_operator(replace_operator(two, "a", name="means"), "b", name="sums")

    [renamed] = compatibility_with(named).operators_with(OperatorMatch.RENAMED)

    assert renamed.uid == "b"


def test_an_operator_of_another_kind_does_not_receive_the_state() -> None:
    turned = replace_operator(GRAPH, "sums", kind=OperatorKind.SINK)

    compatibility = compatibility_with(turned)

    assert matches(compatibility)["sums"] is OperatorMatch.INCOMPATIBLE
    assert compatibility.problems == (
        "the operator with the uid 'sums' was a STATELESS (sums) and is now a SINK (sums); give it a uid of its own"
        " with uid(...)",
    )


def compatibility_of(was: StateSchema, now: StateSchema, *entries: TaskStateEntry) -> StateCompatibility:
    before = replace_operator(GRAPH, "sums", state_schema=was, ref=OperatorRef(uid="sums", fingerprint="window(a)"))
    after = replace_operator(GRAPH, "sums", state_schema=now, ref=OperatorRef(uid="sums", fingerprint="window(b)"))
    return compatibility_with(after, orders_checkpoint(*entries, of=before), allow_non_restored_state=True)


def test_changed_keys_and_types_are_reported_with_both_values() -> None:
    now = StateSchema(keys="shop string, day date", columns="sum string", windows=SUMS.windows)

    [problem] = compatibility_of(SUMS, now).problems

    assert "keys: was `shop string`, is `shop string, day date`" in problem
    assert "sum: its type was `bigint` and is `string`, which is not wider" in problem
    assert "size=60000ms" not in problem


def test_a_list_that_a_function_no_longer_declares_is_dropped() -> None:
    held = OperatorStateSchema(name="own", element="int", mode=OperatorStateMode.SPLIT_DISTRIBUTE)
    before = replace_operator(
        GRAPH,
        "sums",
        state_schema=StateSchema(operator_state=(held,)),
        ref=OperatorRef(uid="sums", fingerprint="process(operator state: own int SPLIT_DISTRIBUTE)"),
    )

    compatibility = compatibility_with(
        replace_operator(GRAPH, "sums", ref=OperatorRef(uid="sums", fingerprint="process")),
        orders_checkpoint(of=before),
    )

    assert compatibility.problems == ()


def test_added_and_removed_state_values_are_reported() -> None:
    now = StateSchema(keys=SUMS.keys, columns="most double", windows=SUMS.windows)

    compatibility = compatibility_of(SUMS, now)

    assert compatibility.problems == ()
    [sums] = [operator for operator in compatibility.operators if operator.uid == "sums"]
    assert sums.match is OperatorMatch.MATCHED
    assert sums.changes == ("most is new: null for existing keys", "sum is dropped")


def test_coordinator_state_requires_a_function_with_a_coordinator() -> None:
    held = OperatorCoordinatorState(operator_id=operator_id("sums"), data=b"numbers")
    stored = replace(orders_checkpoint(), coordinator_states=(held,))
    sums = GRAPH.vertices[1]
    coordinated = replace(sums, operators=(replace(sums.operators[0], has_coordinator=True),))

    assert compatibility_with(replace(GRAPH, vertices=(GRAPH.vertices[0], coordinated)), stored).problems == ()
    (problem,) = compatibility_with(GRAPH, stored).problems
    assert "the coordinator of 'sums', but its function no longer has a coordinator" in problem
    assert compatibility_with(GRAPH, stored, allow_non_restored_state=True).problems == ()


def test_in_flight_rows_of_another_schema_are_refused() -> None:
    now = StateSchema(keys=SUMS.keys, columns="sum bigint, most double", windows=SUMS.windows)
    rows = InFlightRows(path="in-flight", rows=1, size_bytes=1)
    flying = OperatorSubtaskState(
        operator_id=operator_id("sums"), input_channels=(InputChannelStateHandle(gate=0, in_flight=rows),)
    )
    kept = entry("sums")
    assert kept.state is not None
    unaligned = replace(kept, state=replace(kept.state, operators=(*kept.state.operators, flying)))

    [problem] = compatibility_of(SUMS, now, unaligned).problems

    assert "it is unaligned, and its rows in flight belong to the former state of 'sums'" in problem


def test_unnamed_partial_aggregates_must_not_change() -> None:
    named = StateSchema(keys=SUMS.keys, columns="`max(a)` double", windows=SUMS.windows, merged_by=("max",))

    [problem] = compatibility_of(SUMS, named).problems

    assert "state of each key: was `sum bigint`, is ``max(a)` double`" in problem


def test_differences_outside_the_schema_are_not_schema_changes() -> None:
    [problem] = compatibility_of(SUMS, SUMS).problems

    assert "it was window(a) and is now window(b)" in problem


def test_keys_can_be_renamed_if_the_state_has_the_same_structure() -> None:
    same = OperatorRef(uid="sums", fingerprint="window(a)")
    before = replace_operator(GRAPH, "sums", state_schema=SUMS, ref=same)
    after = replace_operator(GRAPH, "sums", state_schema=replace(SUMS, keys="store string"), ref=same)

    assert compatibility_with(after, orders_checkpoint(of=before)).problems == ()


def test_a_changed_maximum_parallelism_is_refused() -> None:
    source, sums = GRAPH.vertices
    configured = replace(sums, max_parallelism=64, is_max_parallelism_configured=True)

    compatibility = compatibility_with(replace(GRAPH, vertices=(source, configured)))

    assert matches(compatibility)["sums"] is OperatorMatch.INCOMPATIBLE
    assert "ran with the maximum parallelism 128, but the job sets it to 64" in compatibility.problems[0]


def test_a_savepoint_of_another_job_names_that_job() -> None:
    other = graph_with_uids(vertex("clicks"))

    [problem] = compatibility_with(other).problems

    assert "None of its state belongs to an operator of this job; it was written by job 'orders'." in problem


def test_an_operator_without_a_name_is_reported_by_id() -> None:
    [problem] = compatibility_with(
        graph_with_uids(vertex("source")), replace(orders_checkpoint(), operators=())
    ).problems

    assert f"an operator with the id {operator_id('sums')}" in problem


def test_an_operator_without_a_uid_is_reported_by_name() -> None:
    of_the_structure = operator_id("another")
    without_uid = replace_operator(GRAPH, "sums", operator_id=of_the_structure, name="where(price > 1)")

    compatibility = compatibility_with(without_uid, orders_checkpoint(entry("another"), of=without_uid))
    lost = compatibility_with(graph_with_uids(vertex("source")), orders_checkpoint(entry("another"), of=without_uid))

    assert [(each.uid, each.name) for each in compatibility.operators] == [
        ("source", "source"),
        (None, "where(price > 1)"),
    ]
    assert (
        f"where(price > 1) without a uid, and with the id {of_the_structure}. The job has 'source';" in lost.problems[0]
    )


def test_changed_session_settings_are_reported_with_both_values() -> None:
    def settings(zone: str, ansi: str) -> tuple[SessionSetting, ...]:
        pairs = (("spark.sql.session.timeZone", zone), ("spark.sql.ansi.enabled", ansi))
        return tuple(SessionSetting(name=name, text=text) for name, text in pairs)

    of_old = orders_checkpoint()
    checkpoint = replace(of_old, session_settings=settings("UTC", "true"))
    same = replace(GRAPH, session_settings=settings("UTC", "TRUE"))
    other = replace(GRAPH, session_settings=settings("Asia/Tokyo", "true"))

    assert compatibility_with(same, checkpoint).settings == ()
    assert compatibility_with(other, checkpoint).settings == ("spark.sql.session.timeZone was UTC, is Asia/Tokyo",)
    assert compatibility_with(other, of_old).settings == ()
