"""Tasks restore the watermarks of a checkpoint, even at a different parallelism, if their event time continues from the
sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.keyed_state import keyed_state, restored_keyed_state
from flykka.actors.machines.state.segments import ResultBounds
from flykka.actors.machines.state.watermarks import BEGINS_AGAIN, restored_watermark, watermark_states
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorCoordinatorState, TaskStateEntry
from flykka.messages.graph.job_graph import JobEdge, JobVertex, Operator, OperatorKind, OperatorRef, ShipStrategy
from flykka.messages.state.handles import (
    KeyGroupRange,
    OperatorSubtaskState,
    PartitionWatermark,
    TaskStateSnapshot,
    WatermarkState,
)
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId


def timed_vertex(
    name: str, kind: OperatorKind, *sources: str, parallelism: int = 2, chained: OperatorKind | None = None
) -> JobVertex:
    kinds = {name: kind, **({f"{name}-behind": chained} if chained else {})}
    return JobVertex(
        vertex_id=JobVertexId(name),
        name=name,
        operators=tuple(
            Operator(operator_id=OperatorId(each), ref=OperatorRef(uid=each, fingerprint=""), name=each, kind=kind)
            for each, kind in kinds.items()
        ),
        parallelism=parallelism,
        max_parallelism=128,
        inputs=tuple(
            JobEdge(source=JobVertexId(source), source_output=0, ship_strategy=ShipStrategy.HASH) for source in sources
        ),
    )


def source_vertex(name: str = "source", parallelism: int = 2) -> JobVertex:
    return timed_vertex(name, OperatorKind.SOURCE, parallelism=parallelism)


def window_vertex(*sources: str, parallelism: int = 2) -> JobVertex:
    return timed_vertex("window", OperatorKind.WINDOW_AGGREGATE, *sources, parallelism=parallelism)


def checkpoint_of_watermarks(**watermarks: tuple[WatermarkState | int | None, ...]) -> CompletedCheckpoint:
    """Return a checkpoint with these watermarks by operator and subtask, in which the operator `source` took part."""
    entries = [
        TaskStateEntry(
            vertex_id=JobVertexId(name),
            subtask=subtask,
            parallelism=len(noted),
            max_parallelism=128,
            state=TaskStateSnapshot(operators=() if each is None else (state_with_watermark(name, each),)),
        )
        for name, noted in watermarks.items()
        for subtask, each in enumerate(noted)
    ]
    coordinator = OperatorCoordinatorState(operator_id=OperatorId("source"), data=b"")
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=4,
        timestamp_ms=0,
        duration_ms=0,
        task_states=tuple(entries),
        coordinator_states=(coordinator,),
    )


def state_with_watermark(operator: str, watermark: WatermarkState | int) -> OperatorSubtaskState:
    noted = WatermarkState(watermark_ms=watermark) if isinstance(watermark, int) else watermark
    return OperatorSubtaskState(operator_id=OperatorId(operator), watermark=noted)


def restored_watermarks(taken: CompletedCheckpoint, *vertices: JobVertex) -> Mapping[tuple[str, int], WatermarkState]:
    states = assign(taken, vertices).states
    return {place: restored_watermark(snapshot) for place, snapshot in states.items()}


def watermark_state(watermark_ms: int, **partitions: int) -> WatermarkState:
    each = (PartitionWatermark(partition=name, watermark_ms=ms) for name, ms in partitions.items())
    return WatermarkState(watermark_ms=watermark_ms, partitions=tuple(each))


def test_each_subtask_resumes_from_its_own_watermark() -> None:
    taken = checkpoint_of_watermarks(source=(100, 50), window=(50, 60))

    assert restored_watermarks(taken, source_vertex(), window_vertex("source")) == {
        ("source", 0): watermark_state(100),
        ("source", 1): watermark_state(50),
        ("window", 0): watermark_state(50),
        ("window", 1): watermark_state(60),
    }


def test_at_another_parallelism_the_minimum_watermark_is_restored() -> None:
    taken = checkpoint_of_watermarks(
        source=(watermark_state(100, a=100, b=120), watermark_state(50, b=50)), window=(60, 50)
    )

    made = restored_watermarks(taken, source_vertex(parallelism=1), window_vertex("source", parallelism=3))

    assert made["source", 0] == watermark_state(50, a=100, b=50)
    assert [made["window", subtask] for subtask in range(3)] == [watermark_state(50)] * 3


def test_a_subtask_without_watermark_leaves_event_time_open_after_a_rescale() -> None:
    assert (
        restored_watermarks(
            checkpoint_of_watermarks(window=(60, None)), source_vertex(), window_vertex("source", parallelism=3)
        )
        == {}
    )


def test_event_time_restarts_downstream_of_a_new_source() -> None:
    taken = checkpoint_of_watermarks(source=(100, 100), window=(100, 100))

    made = restored_watermarks(taken, source_vertex(), source_vertex("new"), window_vertex("source", "new"))

    assert [made["source", 0], made["window", 0]] == [watermark_state(100), BEGINS_AGAIN]


def test_a_watermark_without_state_does_not_constrain_the_restore() -> None:
    taken = checkpoint_of_watermarks(map=(100, 100))
    narrow = replace(taken, task_states=tuple(replace(entry, max_parallelism=2) for entry in taken.task_states))

    assert assign(taken, [source_vertex()]).states == {}
    assert restored_watermarks(
        narrow, source_vertex(), timed_vertex("map", OperatorKind.STATELESS, "source", parallelism=4)
    )["map", 3] == watermark_state(100)


@pytest.mark.parametrize("watermark_ms", [WATERMARK_MIN, WATERMARK_MAX])
def test_the_minimum_and_maximum_watermarks_are_not_stored(watermark_ms: int) -> None:
    assert list(watermark_states(window_vertex(), watermark_state(watermark_ms))) == []


def test_chain_heads_and_event_time_operators_store_the_watermark() -> None:
    chain = timed_vertex("map", OperatorKind.STATELESS, chained=OperatorKind.PROCESS)

    assert [each.operator_id for each in watermark_states(chain, watermark_state(7))] == ["map", "map-behind"]


def test_rows_of_closed_results_are_accepted_if_event_time_restarts() -> None:
    bounds = ResultBounds(closed_to_ms=10, emitted_to_ms=10)
    noted = keyed_state(OperatorId("window"), KeyGroupRange(start=0, end=127), {}, bounds=bounds)
    again = OperatorSubtaskState(operator_id=OperatorId("window"), watermark=BEGINS_AGAIN)

    assert restored_keyed_state([noted, state_with_watermark("window", 5)]).bounds == bounds
    assert restored_keyed_state([noted, again]).bounds == ResultBounds()
