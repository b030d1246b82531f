"""The same of a recorded run: it is replayed up to a turn, and its actors are asked as the living ones are.

No actor is silent in a replay. The engines are not there, so how far the stages are is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task.actor import Task
from flykka.errors import TraceSelectionError
from flykka.explanation.answers import Answers
from flykka.explanation.conclusion import JobWhy, conclude
from flykka.messages.control.job import JobResultFailure, JobResultSuccess, JobStatus, JobStatusChanged, SubmitJob
from flykka.messages.monitoring.explanation import TaskExplained
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.replay.replayer import Replayer
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.divergence import DivergenceError
from flykka.runtime.replay.engine import ReplayEngine
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Turn


class _Heard:
    """What was told of one job up to here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = JobStatus.CREATED
        self.failure: SerializedThrowable | None = None
        self.kept: str | None = None


def explain_recorded(trace: TraceReader, turn: int | None = None, job: str | None = None) -> JobWhy:
    """What a job of the trace waited for behind this turn, or at the end; of several the one that is named.

    Raises:
        ReplaySessionError: there is no such turn, or the replay diverges before it.
        TraceSelectionError: there is no such job up to there, or there are several and none was named.
    """
    engine = Replayer().engine(trace)
    jobs: dict[JobId, _Heard] = {}
    now_ms = 0
    last: int | None = None
    while (upcoming := engine.records.turns(1)) and (turn is None or upcoming[0].sequence <= turn):
        try:
            taken = engine.advance()
        except DivergenceError as diverged:
            raise ReplaySessionError(f"{trace.path} cannot be replayed so far: {diverged.divergence}") from diverged
        if taken is None:
            break
        now_ms, last = taken.now_ms, taken.sequence
        _hear(jobs, taken)
    if turn is not None and last != turn:
        raise ReplaySessionError(f"{trace.path} has no turn {turn}")
    chosen = _chosen(jobs, job, str(trace.path))
    return conclude(_answers(engine, chosen, jobs[chosen], now_ms))


def _hear(jobs: dict[JobId, _Heard], turn: Turn) -> None:
    match turn.message:
        case SubmitJob(job_graph=graph):
            jobs.setdefault(graph.job_id, _Heard(graph.name))
        case JobStatusChanged(job_id=job_id, status=status, cause=cause) if job_id in jobs:
            jobs[job_id].status = status
            jobs[job_id].failure = cause or jobs[job_id].failure
        case JobResultSuccess(job_id=job_id, checkpoint_path=kept) if job_id in jobs:
            jobs[job_id].status, jobs[job_id].kept = JobStatus.FINISHED, kept
        case JobResultFailure(job_id=job_id, cause=cause, status=status, checkpoint_path=kept) if job_id in jobs:
            jobs[job_id].status, jobs[job_id].failure, jobs[job_id].kept = status, cause, kept
        case _:
            pass


def _chosen(jobs: dict[JobId, _Heard], wanted: str | None, path: str) -> JobId:
    fitting = [
        job_id for job_id, heard in jobs.items() if wanted is None or wanted == heard.name or job_id.startswith(wanted)
    ]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{heard.name!r} {job_id}" for job_id, heard in jobs.items()) or "none up to this turn"
    what = f"{path}: there is no job {wanted!r}" if not fitting and wanted else f"{path} has {len(jobs)} jobs"
    raise TraceSelectionError(f"{what}; name one of: {there}")


def _answers(engine: ReplayEngine, job_id: JobId, heard: _Heard, now_ms: int) -> Answers:
    actors = dict(_living(engine))
    masters = {path: each for path, each in actors.items() if isinstance(each, JobMaster)}
    path, master = next(((path, each) for path, each in masters.items() if path.endswith(f"/job-{job_id}")), ("", None))
    coordinator = next(
        (each for at, each in actors.items() if isinstance(each, CheckpointCoordinator) and at.startswith(f"{path}/")),
        None,
    )
    tasks: dict[ExecutionAttemptId, TaskExplained] = {}
    for each in actors.values():
        if isinstance(each, Task):
            explained = each.explain(now_ms)
            tasks[explained.attempt] = explained
    manager = next((each for each in actors.values() if isinstance(each, JobManager)), None)
    resources = next((each for each in actors.values() if isinstance(each, ResourceManager)), None)
    job = None if master is None else master.explain(now_ms)
    own = {attempt.attempt for attempt in job.attempts} if job else set()
    return Answers(
        job_name=heard.name,
        job_id=job_id,
        now_ms=now_ms,
        status=heard.status,
        failure=heard.failure,
        kept_checkpoint=heard.kept,
        leadership=None if manager is None else manager.explain(job_id, now_ms),
        job=job,
        checkpoints=None if coordinator is None or master is None else coordinator.explain(now_ms),
        slots=None if resources is None else resources.explain(now_ms),
        tasks={attempt: task for attempt, task in tasks.items() if attempt in own},
    )


def _living(engine: ReplayEngine) -> Iterator[tuple[str, Actor]]:
    for path in engine.system.cells.living_paths():
        instance = engine.instance(path)
        if instance is not None:
            yield path, instance
