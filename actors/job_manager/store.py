"""Blocking work of a JobManager outside its turns: in the leader's store, in the checkpoints and in the data plane.

The work runs through `context.pipe_to_self`. Every function raises `LeadershipLostError` if the session no longer
leads, and `StoreUnavailableError` if the store cannot be used; then nothing was changed that another leader would need.
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
    JobArchived,
    JobMasterReleased,
    JobResultLookedUp,
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
    known_jobs: Iterable[JobId],
) -> JobsRecovered:
    """Return the jobs that a new leader continues, and the results of `known_jobs` and of jobs that are not archived
    yet.

    If the run `waited_for` has ended, it is not replaced by a new run, because waiting clients need its results.
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
    ids = dict.fromkeys((*(job.job_graph.job_id for job in jobs), *known_jobs))
    ended = {job_id: end for job_id in ids if (end := store.result(job_id)) is not None}
    return JobsRecovered(
        leader_session_id=session,
        run=run,
        jobs=jobs,
        bound=tuple(job.job_graph.job_id for job in jobs if job.driver == services.driver),
        ended=tuple(ended.values()),
    )


def begin_new_run(services: HighAvailabilityServices, session: LeaderSessionId) -> JobsRecovered:
    """Begin a new run of the application, and drop the results of the concluded run."""
    run = ApplicationRun(run_id=services.store(session).run())
    return JobsRecovered(leader_session_id=session, run=run)


def accept_job(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted | JobAlreadyEnded:
    """Check and store a submitted job, unless a job with this id has already ended.

    Raises the data plane's objections, `CheckpointDirectoryError`, and `CheckpointStorageError` or `RestoreError` if
    the checkpoint to start from cannot be read or does not fit.
    """
    job_graph = submitted.job_graph
    end = store.result(job_graph.job_id)
    if end is not None:
        return JobAlreadyEnded(end=end)
    data_plane.check(job_graph)
    # A stored job has been started before, and the checkpoint from which it started may be gone.
    if submitted.restore_path is not None and store.job(job_graph.job_id) is None:
        _check_restorable(submitted, submitted.restore_path)
    CheckpointStorage.of(job_graph.checkpointing).write_job_graph(job_graph)
    return _kept(store, services, data_plane, submitted)


def _check_restorable(submitted: SubmittedJobGraph, path: str) -> None:
    """Check the checkpoint before the reply to the client, as Flink's JobManager does."""
    checkpoint = CheckpointStorage(path).read_metadata(path)
    allow = submitted.allow_non_restored_state
    assign(checkpoint, submitted.job_graph.vertices, allow_non_restored_state=allow)


def begin_again(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted:
    """Store another start of a job whose code is in this driver."""
    return _kept(store, services, data_plane, replace(submitted, starts=submitted.starts + 1))


def _kept(
    store: LeaderStore, services: HighAvailabilityServices, data_plane: DataPlane, submitted: SubmittedJobGraph
) -> JobGraphAccepted:
    job_id = submitted.job_graph.job_id
    data_plane.own(submitted.job_graph)
    try:
        return _put(store, services, data_plane, submitted)
    except LeadershipLostError:
        # The current leader has to own the folders.
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
    """End the remaining work of a JobMaster. Its staged rows and checkpoints stay for the next JobMaster."""
    job_id = job_graph.job_id
    data_plane.end_attempts(job_id)
    # A leader will run the job again. Otherwise another process may run it.
    data_plane.release_job(job_id, keep_staged=True, keep_owner=store is not None)
    return JobMasterReleased(
        job_id=job_id,
        end=None if store is None else store.result(job_id),
        checkpoint_path=CheckpointStorage(job_graph.checkpointing.directory).latest(job_id),
    )


def put_away_job(store: LeaderStore, end: JobEnded) -> JobArchived:
    """Archive a job whose JobMaster has cleaned up."""
    store.put_result(end)
    submitted = store.job(end.job_id)
    if submitted is not None:
        _note_end_of_run(submitted.job_graph, end)
    store.remove_job(end.job_id)
    return JobArchived(end=end)


def clean_up_job(store: LeaderStore, data_plane: DataPlane, job_graph: JobGraph, end: JobEnded) -> JobArchived:
    """Clean up and archive a job whose JobMaster recorded the job's end but did not clean up.

    The checkpoint of a stop is retained, and so is the last checkpoint if the retention policy demands it, with the
    rows staged for it. The retained checkpoint is recorded before anything is deleted, so that a leader which was
    paused deletes nothing.
    """
    job_id = job_graph.job_id
    storage = CheckpointStorage(job_graph.checkpointing.directory)
    latest = storage.latest(job_id)
    keeps_latest = _keeps_latest(end.status, job_graph) and not end.deletes_checkpoints
    retained = end.checkpoint_path or (latest if keeps_latest else None)
    end = replace(end, checkpoint_path=retained)
    store.put_result(end)
    data_plane.release_job(job_id, keep_staged=retained is not None and end.status is not JobStatus.FINISHED)
    if retained is None or retained != latest:
        storage.delete_job(job_id)
    _note_end_of_run(job_graph, end)
    store.remove_job(job_id)
    return JobArchived(end=end)


def _note_end_of_run(job_graph: JobGraph, end: JobEnded) -> None:
    """Record the job's end for the next run, which may run without high availability."""
    CheckpointStorage.of(job_graph.checkpointing).record_end_of_run(job_graph.name, end)


def _keeps_latest(status: JobStatus, job_graph: JobGraph) -> bool:
    match job_graph.checkpointing.retention:
        case ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            return status is not JobStatus.FINISHED
        case ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION:
            return status is JobStatus.FAILED
        case _:
            return False


def look_for_result(store: LeaderStore, job_id: JobId, client: Ref) -> JobResultLookedUp:
    return JobResultLookedUp(job_id=job_id, client=client, end=store.result(job_id))
