"""Diagnoses a job of a recorded run: replays the run up to a turn, and examines its actors.

All actors reply in a replay. There are no engines, so the progress of stages is unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.execution_graph_info_store.actor import INFO_STORE_PATH
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.machines.read_model.execution_graph_info_store import ExecutionGraphInfoStore
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task.actor import Task
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.diagnosis.reports import ActorReports
from flykka.errors import TraceSelectionError
from flykka.messages.control.job import SubmitJob
from flykka.messages.monitoring.explanation import TaskExplained
from flykka.messages.monitoring.job_details import JobDetails, TrackJob
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.message import Message
from flykka.replay.replayer import Replayer
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.divergence import DivergenceError
from flykka.runtime.replay.engine import ReplayEngine
from flykka.runtime.trace.file.reader import TraceReader


def diagnose_recorded(
    trace: TraceReader, turn: int | None = None, job: str | None = None, *, modules: Iterable[str] = ()
) -> JobDiagnosis:
    """Explain what a job in the trace was waiting for after this turn, or at the end.

    `job` selects one of several jobs.

    Raises:
        ReplaySessionError: there is no such turn, or the replay diverges before it.
        TraceSelectionError: there is no such job up to the turn, or there are several and `job` is not set.
    """
    engine = Replayer(modules=modules).engine(trace)
    store = ExecutionGraphInfoStore(sys.maxsize)
    now_ms = 0
    last: int | None = None
    while (upcoming := engine.records.turns(1)) and (turn is None or upcoming[0].sequence <= turn):
        try:
            advanced = engine.advance()
        except DivergenceError as diverged:
            raise ReplaySessionError(
                f"{trace.path} cannot be replayed up to this turn: {diverged.divergence}"
            ) from diverged
        if advanced is None:
            break
        now_ms, last = advanced.now_ms, advanced.sequence
        match advanced.message:
            case SubmitJob(job_graph=job_graph):
                store.on_message(TrackJob(job_graph=job_graph), advanced.now_ms)
            case Message() if advanced.recipient.path == INFO_STORE_PATH:
                store.on_message(advanced.message, advanced.now_ms)
            case _:
                pass
    if turn is not None and last != turn:
        raise ReplaySessionError(f"{trace.path} has no turn {turn}")
    details = _chosen([model.details(now_ms, 0) for model in store.jobs.values()], job, str(trace.path))
    return diagnose(_reports(engine, details, now_ms))


def _chosen(jobs: Sequence[JobDetails], selector: str | None, path: str) -> JobDetails:
    fitting = [job for job in jobs if selector is None or selector == job.name or job.job_id.startswith(selector)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{job.name!r} {job.job_id}" for job in jobs) or "none up to this turn"
    what = f"{path}: there is no job {selector!r}" if not fitting and selector else f"{path} has {len(jobs)} jobs"
    raise TraceSelectionError(f"{what}; name one of: {there}")


def _reports(engine: ReplayEngine, details: JobDetails, now_ms: int) -> ActorReports:
    actors, job_id = dict(_living(engine)), details.job_id
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
    return ActorReports(
        details=details,
        now_ms=now_ms,
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
