"""Job details with default values, and rendering for a simulated terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console as RichConsole
from rich.console import RenderableType

from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import CheckpointCompleted, JobStatus
from flykka.messages.monitoring.job_details import CheckpointStatistics, JobDetails, JobVertexDetails, SubtaskCount
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobId, JobVertexId

DETAILS = JobDetails(
    job_id=JobId("job"),
    name="delays",
    status=JobStatus.RUNNING,
    started_ms=0,
    duration_ms=12_300,
    vertices=(),
    checkpoints=(),
    checkpoints_completed=0,
    checkpoints_failed=0,
    last_completed=None,
    restored_checkpoint=None,
    restarts=(),
    last_failure=None,
)
VERTEX = JobVertexDetails(
    vertex_id=JobVertexId("source"),
    name="Source: flights",
    parallelism=2,
    sources=("flights",),
    sinks=(),
    state=ExecutionState.RUNNING,
    subtask_counts=(SubtaskCount(state=ExecutionState.RUNNING, count=2),),
)


def completed_statistics(number: int) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=number,
        status=CheckpointStatsStatus.COMPLETED,
        ended_ms=0,
        duration_ms=300,
        size_bytes=2_048,
        incremental_bytes=512,
        path="/chk",
    )


def rendered_lines(picture: RenderableType, width: int = 120, encoding: str = "utf-8", height: int = 24) -> list[str]:
    """Return the lines without colours and trailing spaces."""

    class Nowhere(StringIO):
        # The encoding of a StringIO cannot be set.
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    output = RichConsole(file=Nowhere(), width=width, height=height, color_system=None, force_terminal=True)
    with output.capture() as captured:
        output.print(picture)
    return [line.rstrip() for line in captured.get().splitlines()]


def checkpoint_completed(
    checkpoint_id: int, timestamp_ms: int, duration_ms: int = 58, path: str = "/chk"
) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JobId("job"),
        checkpoint_id=checkpoint_id,
        duration_ms=duration_ms,
        size_bytes=2_048,
        incremental_bytes=512,
        path=path,
        timestamp_ms=timestamp_ms,
    )
