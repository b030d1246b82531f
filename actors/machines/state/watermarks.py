"""The watermarks of a checkpoint, so that rows that were late before a restart are late after it.

Every task stores its watermark at the barrier: a task that generates watermarks stores those of its generators, any
other task stores that of its inputs. Both are needed. The watermarks of the sources do not determine those of inputs:
idle channels lagged, and rows that an unaligned barrier has overtaken come before any watermark. Sources send their
watermarks again, in band, before any row, because otherwise the minimum over the channels could not grow.

A watermark is valid while the sources from which it comes continue from their positions. If one of these sources was
not in the checkpoint, event time begins again downstream of it. Flink stores no watermarks, except in SQL windows. When
the parallelism has changed, the minimum over the former subtasks is used, as in Flink's SQL windows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from flykka.messages.graph.job_graph import JobVertex, OperatorKind
from flykka.messages.state.handles import (
    OperatorSubtaskState,
    PartitionWatermark,
    TaskStateSnapshot,
    WatermarkState,
)
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobVertexId, OperatorId

BEGINS_AGAIN = WatermarkState(watermark_ms=WATERMARK_MIN)


def watermark_states(vertex: JobVertex, watermark: WatermarkState) -> Iterator[OperatorSubtaskState]:
    """Yield the watermark as state of the operators that use it. The end of event time is not stored."""
    if WATERMARK_MIN < watermark.watermark_ms < WATERMARK_MAX:
        for place, operator in enumerate(vertex.operators):
            if place == 0 or operator.kind.uses_event_time:
                yield OperatorSubtaskState(operator_id=operator.operator_id, watermark=watermark)


def restored_watermark(restore: TaskStateSnapshot | None) -> WatermarkState:
    """Return the initial watermark of a task: the lowest of its operators, because they may be chained differently."""
    states = () if restore is None else restore.operators
    watermarks = (state.watermark for state in states if state.watermark is not None)
    return min(watermarks, key=lambda each: each.watermark_ms, default=BEGINS_AGAIN)


def restored_input_watermark_ms(descriptor: TaskDeploymentDescriptor) -> int:
    """Return the initial watermark of a task's inputs. It is unused if the task generates its own watermarks."""
    if descriptor.vertex.operators[0].kind.makes_watermarks:
        return WATERMARK_MIN
    return restored_watermark(descriptor.restore).watermark_ms


def begins_again(states: Iterable[OperatorSubtaskState]) -> bool:
    """Return True if an operator has state, but its event time begins again."""
    return any(state.watermark == BEGINS_AGAIN for state in states)


def sources_of(vertices: Iterable[JobVertex]) -> dict[JobVertexId, frozenset[OperatorId]]:
    """Return the sources whose rows each vertex receives. `vertices` are in topological order."""
    sources: dict[JobVertexId, frozenset[OperatorId]] = {}
    for vertex in vertices:
        own = [each.operator_id for each in vertex.operators if each.kind is OperatorKind.SOURCE]
        read = (sources.get(edge.source, frozenset()) for edge in vertex.inputs)
        sources[vertex.vertex_id] = frozenset(own).union(*read)
    return sources


def assigned_watermarks(
    former: Mapping[int, WatermarkState], old_parallelism: int, parallelism: int, *, continues: bool
) -> Iterator[tuple[int, WatermarkState]]:
    """Yield the watermark of each subtask of an operator, from the watermarks of the former subtasks."""
    if not continues:
        yield from ((subtask, BEGINS_AGAIN) for subtask in range(parallelism) if former)
    elif parallelism == old_parallelism:
        yield from former.items()
    elif len(former) == old_parallelism:
        least = _least(former.values())
        yield from ((subtask, least) for subtask in range(parallelism))


def _least(states: Collection[WatermarkState]) -> WatermarkState:
    partitions: dict[str, int] = {}
    for state in states:
        for each in state.partitions:
            partitions[each.partition] = min(each.watermark_ms, partitions.get(each.partition, each.watermark_ms))
    return WatermarkState(
        watermark_ms=min(state.watermark_ms for state in states),
        partitions=tuple(PartitionWatermark(partition=name, watermark_ms=ms) for name, ms in partitions.items()),
    )
