"""Work of a JobManager outside its turns: in the store of the leader, in the checkpoints and in the data plane.

All of it blocks, and is run by `context.pipe_to_self`. Every function raises `LeadershipLostError` where the session
leads no more, and `StoreUnavailableError` where the store cannot be used; then nothing was changed that another leader
would miss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flykka.actors.checkpoint_coordinator.master_hooks import MasterHooks
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.data_plane import DataPlane
from flykka.actors.errors import LeadershipLostError
from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.actors.machines.state.assignment import assign
from flykka.messages.control.high_availability import ApplicationRun, SubmittedJobGraph
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded, JobGraphAccepted
from flykka.messages.control.job_manager import (
    JobAlreadyEnded,
    JobMasterReleased,
    JobPutAway,
    JobResultLookedFor,
    JobsRecovered,
)
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobGraph
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.messages.wire.ref import Ref


def recover_jobs(
    services: HighAvailabilityServices,
    session: LeaderSessionId,
    waited_for: str | None,
    address: str,
    known: Iterable[JobId],
) -> JobsRecovered:
    """Begin to lead: what there is to go on with, and how jobs have ended that are `known` or still to be put away.

    Where the run that was waited for was concluded meanwhile, it stays: its results answer those who have waited.
    """
    store = services.store(session)
    last = services.last_run()
    jobs: tuple[SubmittedJobGraph, ...] = ()
    if last is not None and last.is_concluded and last.run_id == waited_for:
        run = last
    else:
        run = ApplicationRun(run_id=store.run())
        jobs = store.jobs()
    services.confirm(session, address)
    ids = dict.fromkeys((*(job.job_graph.job_id for job in jobs), *known))
    ended = {job_id: end for job_id in ids if (end := store.result(job_id)) is not None}
    return JobsRecovered(
        leader_session_id=session,
        run=run,
        jobs=jobs,
        bound=tuple(job.job_graph.job_id for job in jobs if job.driver == services.driver),
        ended=tuple(ended.values()),
    )


def begin_new_run(services: HighAvailabilityServices, session: LeaderSessionId) -> JobsRecovered:
    """Let go of the results that were waited for: a new run of the application begins."""
    run = ApplicationRun(run_id=services.store(session).run())
    return JobsRecovered(leader_session_id=session, run=run)


def accept_job(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted | JobAlreadyEnded:
    """Check and keep what a client has submitted to this driver, unless such a job has ended already.

    Raises what the data plane has against it; `CheckpointDirectoryError`; and `CheckpointStorageError` or
    `RestoreError` where the checkpoint that it starts from cannot be read, or does not fit.
    """
    job_graph = submitted.job_graph
    end = store.result(job_graph.job_id)
    if end is not None:
        return JobAlreadyEnded(end=end)
    data_plane.check(job_graph)
    # One that is kept has begun, and may have left what it began with behind.
    if submitted.restore_path is not None and store.job(job_graph.job_id) is None:
        _check_restorable(submitted, submitted.restore_path)
    CheckpointStorage.of(job_graph.checkpointing).write_job_graph(job_graph)
    return _kept(store, services, data_plane, submitted)


def _check_restorable(submitted: SubmittedJobGraph, path: str) -> None:
    """Load the checkpoint and hold it against the job, as Flink's JobManager did before it answered the client."""
    checkpoint = CheckpointStorage(path).read_metadata(path)
    allow = submitted.allow_non_restored_state
    assign(checkpoint, submitted.job_graph.vertices, allow_non_restored_state=allow)


def begin_again(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted:
    """Count one more start of a job whose code is in this driver."""
    return _kept(store, services, data_plane, replace(submitted, starts=submitted.starts + 1))


def _kept(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted:
    job_id = submitted.job_graph.job_id
    data_plane.own(submitted.job_graph)
    try:
        return _put(store, services, data_plane, submitted)
    except LeadershipLostError:
        # The present leader is to own the folders.
        data_plane.release_job(job_id, keep_staged=True)
        raise


def _put(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted:
    job_id = submitted.job_graph.job_id
    hooks = MasterHooks(data_plane.master_hooks(job_id)).identifiers
    store.put_job(replace(submitted, driver=services.driver))
    labels = data_plane.labels_failures(job_id)
    return JobGraphAccepted(job_id=job_id, master_hooks=hooks, starts=submitted.starts, labels_failures=labels)


def release_job_master(store: LeaderStore | None, data_plane: DataPlane, job_graph: JobGraph) -> JobMasterReleased:
    """End what a JobMaster has left at work; what it has staged, and its checkpoints, are for the next one."""
    job_id = job_graph.job_id
    data_plane.end_attempts(job_id)
    # A leader runs it again; elsewhere another process may.
    data_plane.release_job(job_id, keep_staged=True, keep_owner=store is not None)
    return JobMasterReleased(
        job_id=job_id,
        end=None if store is None else store.result(job_id),
        checkpoint_path=CheckpointStorage(job_graph.checkpointing.directory).latest(job_id),
    )


def put_away_job(store: LeaderStore, end: JobEnded) -> JobPutAway:
    """Note how a job has ended whose JobMaster has put away everything, and forget it."""
    store.put_result(end)
    submitted = store.job(end.job_id)
    if submitted is not None:
        _note_end_of_run(submitted.job_graph, end)
    store.remove_job(end.job_id)
    return JobPutAway(end=end)


def clean_up_job(store: LeaderStore, data_plane: DataPlane, job_graph: JobGraph, end: JobEnded) -> JobPutAway:
    """Put away a job whose JobMaster came no further than to its end.

    A checkpoint that it was stopped with stays, and the last one where that was wanted; with it what was staged for it.
    What stays is noted right before the rest goes: a leader that has slept since deletes nothing.
    """
    job_id = job_graph.job_id
    storage = CheckpointStorage(job_graph.checkpointing.directory)
    latest = storage.latest(job_id)
    keeps_latest = _keeps_latest(end.status, job_graph) and not end.deletes_checkpoints
    kept = end.checkpoint_path or (latest if keeps_latest else None)
    end = replace(end, checkpoint_path=kept)
    store.put_result(end)
    data_plane.release_job(job_id, keep_staged=kept is not None and end.status is not JobStatus.FINISHED)
    if kept is None or kept != latest:
        storage.delete_job(job_id)
    _note_end_of_run(job_graph, end)
    store.remove_job(job_id)
    return JobPutAway(end=end)


def _note_end_of_run(job_graph: JobGraph, end: JobEnded) -> None:
    """Tell the run after this one, which need not be one of high availability, where there is to go on from."""
    CheckpointStorage.of(job_graph.checkpointing).note_end_of_run(job_graph.name, end)


def _keeps_latest(status: JobStatus, job_graph: JobGraph) -> bool:
    match job_graph.checkpointing.retention:
        case ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            return status is not JobStatus.FINISHED
        case ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION:
            return status is JobStatus.FAILED
        case _:
            return False


def look_for_result(store: LeaderStore, job_id: JobId, client: Ref) -> JobResultLookedFor:
    """Look up the result of a job that is no longer known, for a client that comes back."""
    return JobResultLookedFor(job_id=job_id, client=client, end=store.result(job_id))
