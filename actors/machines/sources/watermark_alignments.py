"""The alignment of event time between the sources of a job, on the JobMaster's side.

Readers report their watermarks. The minimum over a group plus the allowed drift of a source is the limit for the
source's readers, which are sent new limits at intervals. The group waits for a reader that has not reported yet or is
restarting, but not for a reader that is idle or has read all its data. Follows Flink's SourceCoordinator with its
combined watermark, except that Flink does not wait for the first report of a reader.

Not here: how a reader uses its limit, and the current attempts of subtasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flykka.actors.machines.effects import Ignore, StartTimer, Tell
from flykka.actors.machines.sources.source_events import AttemptEnded, SourcesReset, SubtaskReset
from flykka.messages.control.job_control import WatermarkAlignmentDue
from flykka.messages.graph.job_graph import JobGraph, JobType
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.source import AlignWatermark, ReportedWatermark
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, vertex_subtask_and_number
from flykka.messages.wire.tags import trace_tag

AlignmentEvent = ReportedWatermark | WatermarkAlignmentDue | AttemptEnded | SubtaskReset | SourcesReset
AlignmentEffect = Tell[ExecutionAttemptId] | StartTimer | Ignore

_NOT_ALIGNED = Ignore(reason="the attempt has no aligned source")


@trace_tag("state.aligned_reader")
@dataclass(slots=True)
class _Reader:
    """A subtask of an aligned source: its attempt, if the attempt has reported, and the last limit sent to it."""

    max_drift_ms: int
    attempt: ExecutionAttemptId | None = None
    number: int = -1
    watermark_ms: int = WATERMARK_MIN
    is_idle: bool = False
    told_ms: int | None = None

    @property
    def is_waited_for(self) -> bool:
        return not self.is_idle and self.watermark_ms != WATERMARK_MAX

    def begin(self) -> None:
        self.attempt = self.told_ms = None
        self.watermark_ms, self.is_idle = WATERMARK_MIN, False


@dataclass(slots=True)
class _Group:
    name: str
    interval_ms: int
    readers: dict[tuple[JobVertexId, int], _Reader] = field(default_factory=dict)
    is_due: bool = False
    """True while a timer runs, because something has changed since the limits were sent."""

    @property
    def watermark_ms(self) -> int:
        """The lowest watermark of the readers for which the group waits, or `WATERMARK_MAX` if there are none."""
        return min((each.watermark_ms for each in self.readers.values() if each.is_waited_for), default=WATERMARK_MAX)


class WatermarkAlignments:
    def __init__(self, job_graph: JobGraph) -> None:
        self._job_id = job_graph.job_id
        self._groups: dict[str, _Group] = {}
        self._of_vertex: dict[JobVertexId, _Group] = {}
        for vertex in job_graph.vertices if job_graph.job_type is JobType.STREAMING else ():
            if (alignment := vertex.watermark_alignment) is not None:
                group = self._groups.setdefault(alignment.group, _Group(alignment.group, alignment.update_interval_ms))
                group.interval_ms = min(group.interval_ms, alignment.update_interval_ms)
                self._of_vertex[vertex.vertex_id] = group
                for subtask in range(vertex.parallelism):
                    group.readers[vertex.vertex_id, subtask] = _Reader(alignment.max_drift_ms)

    def handle(self, event: AlignmentEvent) -> list[AlignmentEffect]:
        match event:
            case ReportedWatermark():
                return self._on_reported(event)
            case WatermarkAlignmentDue(group=name):
                group = self._groups.get(name)
                return [_NOT_ALIGNED] if group is None else self._announce(group)
            case AttemptEnded(attempt=attempt):
                return self._on_ended(attempt)
            case SubtaskReset(vertex_id=vertex_id, subtask=subtask):
                group = self._of_vertex.get(vertex_id)
                return [_NOT_ALIGNED] if group is None else self._begin(group, [group.readers[vertex_id, subtask]])
            case SourcesReset():
                groups = self._groups.values()
                return [effect for group in groups for effect in self._begin(group, group.readers.values())]

    def check(self) -> None:
        for group in self._groups.values():
            for reader in group.readers.values():
                is_current = reader.told_ms is None or reader.told_ms <= _allowed_ms(group.watermark_ms, reader)
                assert is_current or group.is_due, f"a reader of {group.name} may read too far"

    def _on_reported(self, report: ReportedWatermark) -> list[AlignmentEffect]:
        vertex_id, subtask, number = vertex_subtask_and_number(report.attempt, self._job_id)
        group = self._of_vertex.get(vertex_id)
        if group is None:
            return [_NOT_ALIGNED]
        reader = group.readers[vertex_id, subtask]
        if number < reader.number:
            return [Ignore(reason=f"{report.attempt} has ended")]
        if reader.attempt != report.attempt:
            reader.begin()
        reader.attempt, reader.number = report.attempt, number
        reader.watermark_ms, reader.is_idle = report.watermark_ms, report.is_idle
        return self._changed(group)

    def _on_ended(self, attempt: ExecutionAttemptId) -> list[AlignmentEffect]:
        vertex_id, subtask, _ = vertex_subtask_and_number(attempt, self._job_id)
        group = self._of_vertex.get(vertex_id)
        reader = None if group is None else group.readers[vertex_id, subtask]
        # A reader that has read all its data stays at WATERMARK_MAX until another attempt replaces it.
        if group is None or reader is None or reader.attempt != attempt or reader.watermark_ms == WATERMARK_MAX:
            return [_NOT_ALIGNED]
        return self._begin(group, [reader])

    def _begin(self, group: _Group, readers: Iterable[_Reader]) -> list[AlignmentEffect]:
        for reader in readers:
            reader.begin()
        return self._changed(group)

    def _changed(self, group: _Group) -> list[AlignmentEffect]:
        if group.is_due:
            return []
        group.is_due = True
        due = WatermarkAlignmentDue(group=group.name)
        return [StartTimer(key=f"watermark-alignment/{group.name}", delay_ms=group.interval_ms, message=due)]

    def _announce(self, group: _Group) -> list[AlignmentEffect]:
        group.is_due = False
        watermark_ms = group.watermark_ms
        effects: list[AlignmentEffect] = []
        for reader in group.readers.values():
            allowed_ms = _allowed_ms(watermark_ms, reader)
            if reader.attempt is not None and reader.told_ms != allowed_ms:
                reader.told_ms = allowed_ms
                message = AlignWatermark(attempt=reader.attempt, max_watermark_ms=allowed_ms)
                effects.append(Tell(to=reader.attempt, message=message))
        return effects


def _allowed_ms(watermark_ms: int, reader: _Reader) -> int:
    """Return the watermark up to which a reader may read, or `WATERMARK_MIN` while any reader has to report first."""
    if watermark_ms == WATERMARK_MIN:
        return WATERMARK_MIN
    return min(WATERMARK_MAX, watermark_ms + reader.max_drift_ms)
