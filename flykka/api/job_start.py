"""Collects the traces of a job's earlier runs, and starts the job as `continuation.py` decides.

The traces are the record of the last run in the checkpoint directory, the checkpoint that it left, and the folders of
the job's sinks. Ownership of these folders is acquired first, so that no other process runs the job meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

from flykka.actors.checkpoint_storage.file_names import file_name_part, is_savepoint
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import CheckpointStorageError, HighAvailabilityError, JobOwnershipError, OwnedByAnotherError
from flykka.api.launch import current_launch
from flykka.client.checkpoints import check_restorable, find_checkpoint, newest_of_job, read_checkpoint
from flykka.client.continuation import (
    COMMAND_LINE,
    PYTHON,
    FolderContents,
    LastRunState,
    Refusal,
    RunTraces,
    Start,
    decide,
    last_run_state,
)
from flykka.client.running_jobs import RunningJob, running_jobs
from flykka.client.start_settings import StartMode
from flykka.client.state_compatibility import other_settings
from flykka.errors import CheckpointError, ClusterError, DuplicateJobSubmissionError
from flykka.ipython import running_cell
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRun
from flykka.messages.graph.job_graph import JobGraph, JobType
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.job_sinks import SinkFolders, delete_published, delete_staged, sink_folders
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.fast_paths import FastPaths
from flykka.spark_bridge.warm_up import warm_up_in_background

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.client.job_client import JobClient
    from flykka.cluster.application_jobs import IdentifiedJob
    from flykka.cluster.local_cluster import LocalCluster
    from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
    from flykka.spark_bridge.connectors.job_owners import JobOwners
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.prototype import SparkSession

logger = logging.getLogger("flykka")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart:
    job_graph: JobGraph
    restore_path: str | None
    runs: bool = True
    """False if the job has ended already and only its result is returned."""

    def note(self) -> None:
        if not self.runs:
            return
        run = JobRun(job_id=self.job_graph.job_id, job_name=self.job_graph.name, restore_path=self.restore_path)
        checkpointing = self.job_graph.checkpointing
        try:
            CheckpointStorage.of(checkpointing).record_run(run)
        except OSError as refused:
            # The job was accepted and is running, so a missing record must not fail it.
            logger.warning(
                "job %r cannot be continued automatically: writing its run failed: %s", run.job_name, refused
            )


class JobStarts:
    """Prepares the starts of one environment's jobs; used only by the thread that executes them."""

    def __init__(self, registry: CodeRegistry, owners: JobOwners) -> None:
        self._registry, self._owners = registry, owners
        self._owned = JobId("")
        # Each client comes with the notebook cell execution that submitted it, if any.
        self._last: dict[str, tuple[JobClient, int | None]] = {}

    def remember(self, client: JobClient) -> None:
        self._last[client.job_name] = client, running_cell()

    def prepare_start(
        self,
        settings: JobSettings,
        job_graph: JobGraph,
        session: SparkSession,
        cluster: Callable[[], LocalCluster],
        *,
        has_store: bool,
        was_named: bool,
    ) -> JobStart:
        """Acquire the folders of a job, decide and report how it starts, and delete the output to be overwritten.

        `was_named`: the checkpoint directory was set by the user or belongs to a store, so it is not temporary.
        `cluster` is started only to query a high-availability store or to delete output.

        Raises:
            CheckpointError: the checkpoint does not exist, cannot be read or does not fit (the error names the
                operators); or the checkpoint directory cannot be used.
            DuplicateJobSubmissionError: the job would publish rows twice, or another process runs it.
            ClusterError: the job is to start from the beginning, but its store has an unfinished run; or the store
                cannot be used.
            SinkError: the folder of a sink cannot be read.
        """
        self._owned = job_graph.job_id
        try:
            return self._decide(settings, job_graph, session, cluster, has_store=has_store, was_named=was_named)
        except BaseException:
            self._owners.release(self._owned, unused=True)
            raise

    def _decide(
        self,
        settings: JobSettings,
        job_graph: JobGraph,
        session: SparkSession,
        cluster: Callable[[], LocalCluster],
        *,
        has_store: bool,
        was_named: bool,
    ) -> JobStart:
        mode, restore_path = settings.start.mode, None
        if mode is StartMode.CHECKPOINT:
            checkpoint = find_checkpoint(str(settings.start.restore_from), settings.checkpointing.directory)
            check_restorable(checkpoint, job_graph, allow_non_restored_state=settings.start.allow_non_restored_state)
            restore_path = checkpoint.path
        if not has_store:
            # The folders are acquired first, because another process that runs the job could change all traces
            # examined below.
            self._acquire_folders(job_graph, session, shares=not was_named)
        if has_store:
            identified = self._identify(settings, job_graph, restore_path, cluster(), session)
            job_graph, restore_path = identified.job_graph, identified.restore_path
            if not identified.has_ended:
                self._acquire_folders(job_graph, session, shares=not was_named)
            if identified.has_ended or identified.continues:
                return JobStart(job_graph=job_graph, restore_path=restore_path, runs=not identified.has_ended)
        folders = sink_folders(job_graph, self._registry, FileSystem(session))
        finished = self._has_finished(job_graph.name)
        follows = finished and self._last[job_graph.name][1] == running_cell()
        search = _TraceSearch(job_graph, folders, follows_itself=follows, note_counts=was_named and not finished)
        overwritten = tuple(_matching_folder(path, folders, FileSystem(session)) for path in settings.start.overwritten)
        try:
            traces = search.collect(mode, restore_path)
        except CheckpointStorageError as unreadable:
            raise CheckpointError(f"job {job_graph.name!r} was not submitted: {unreadable}") from unreadable
        words = COMMAND_LINE if current_launch().takes_options else PYTHON
        match decide(traces, mode, overwritten, words):
            case Start() as start:
                pass
            case Refusal(reason=reason, is_mismatch=True):
                raise CheckpointError(reason)
            case Refusal(reason=reason):
                raise DuplicateJobSubmissionError(reason)
            case unreachable:
                assert_never(unreachable)
        for text in start.notices:
            current_launch().notify(text)
        orphan = search.orphan()
        if orphan is not None:
            delete_staged(job_graph, self._registry, FileSystem(session), orphan)
        if start.restore_path is not None:
            _warn_of_other_settings(read_checkpoint(start.restore_path), job_graph)
        if start.overwrites:
            cluster().check(job_graph)
            delete_published(job_graph, self._registry, FileSystem(session), start.overwrites)
        return JobStart(job_graph=job_graph, restore_path=start.restore_path)

    def _acquire_folders(self, job_graph: JobGraph, session: SparkSession, *, shares: bool) -> None:
        """Acquire the folders of a job; jobs that share a temporary folder may also share a name."""
        notify, self._owned = current_launch().notify, job_graph.job_id
        try:
            self._owners.acquire(job_graph, FileSystem(session), notify, shares=shares, is_lenient=True)
        except OwnedByAnotherError as owned:
            raise DuplicateJobSubmissionError(str(owned)) from owned
        except HighAvailabilityError as unusable:
            raise ClusterError(f"job {job_graph.name!r} was not submitted: {unusable}") from unusable
        except JobOwnershipError as refused:
            raise CheckpointError(f"job {job_graph.name!r} was not submitted: {refused}") from refused
        if self._owners.number_of(job_graph.job_id):
            self._take_over_last_run(job_graph, session)

    def _take_over_last_run(self, job_graph: JobGraph, session: SparkSession) -> None:
        try:
            last = CheckpointStorage(job_graph.checkpointing.directory).last_run(job_graph.name)
        except CheckpointStorageError as unreadable:
            raise CheckpointError(f"job {job_graph.name!r} was not submitted: {unreadable}") from unreadable
        if last is not None:
            self._owners.take_over(job_graph, FileSystem(session), last.job_id)

    def _identify(
        self,
        settings: JobSettings,
        job_graph: JobGraph,
        restore_path: str | None,
        cluster: LocalCluster,
        session: SparkSession,
    ) -> IdentifiedJob:
        def notify_and_warm_up(text: str) -> None:
            current_launch().notify(text)
            if FastPaths.of(session).warm_up:
                warm_up_in_background(session)

        begins = settings.start.mode in (StartMode.FRESH, StartMode.OVERWRITE)
        identified = cluster.identify(
            job_graph,
            restore_path,
            allow_non_restored_state=settings.start.allow_non_restored_state,
            repeats=begins,
            notify=notify_and_warm_up,
        )
        if identified.continues and begins and not identified.has_ended:
            raise ClusterError(
                f"job {job_graph.name!r} is unfinished in its high-availability store, so it cannot start at"
                " the beginning of its input: run it without --fresh and --overwrite and stop it first, or use another"
                " store"
            )
        if identified.checkpoint is not None and not identified.has_ended:
            current_launch().notify(f"continuing {job_graph.name!r} from {describe(identified.checkpoint)}")
            _warn_of_other_settings(identified.checkpoint, job_graph)
        return identified

    def _has_finished(self, job_name: str) -> bool:
        last, _ = self._last.get(job_name, (None, None))
        return last is not None and last.status is JobStatus.FINISHED and last.details.kept_checkpoint is None


def describe(checkpoint: CompletedCheckpoint) -> str:
    taken_at = datetime.fromtimestamp(checkpoint.timestamp_ms / 1000)
    when = f"{taken_at:%H:%M:%S}" if taken_at.date() == datetime.now().date() else f"{taken_at:%Y-%m-%d %H:%M:%S}"
    kind = "savepoint" if is_savepoint(checkpoint.path) else "checkpoint"
    return f"{kind} {checkpoint.checkpoint_id} of {when} ({checkpoint.path})"


def _warn_of_other_settings(checkpoint: CompletedCheckpoint, job_graph: JobGraph) -> None:
    for setting in other_settings(checkpoint, job_graph):
        current_launch().notify(
            f"job {job_graph.name!r} continues with another setting of Spark's session than {checkpoint.path} was taken"
            f" with: {setting}; its state and the published rows were computed with the earlier one"
        )


class _TraceSearch:
    """Searches for the traces of a job: its last run, its last checkpoint, and the contents of its sinks' folders.

    With `follows_itself`, a job with this name has already finished in this environment (in a notebook: in this
    execution of the cell), so running it again is intended. The record of the last run is read even if it does not
    decide the start (see `RunTraces`).
    """

    def __init__(
        self, job_graph: JobGraph, folders: SinkFolders, *, follows_itself: bool, note_counts: bool = True
    ) -> None:
        self._job_graph = job_graph
        self._folders = folders
        self._follows_itself = follows_itself
        self._note_counts = note_counts
        self._storage = CheckpointStorage(job_graph.checkpointing.directory)

    def collect(self, mode: StartMode, restore_path: str | None) -> RunTraces:
        job_name = self._job_graph.name
        if mode is StartMode.CHECKPOINT:
            return RunTraces(job_name=job_name, checkpoint=restore_path, folders=self._contents(counts_own=True))
        run = self._last_run
        state = self._state(run)
        follows = self._follows_itself and mode is not StartMode.OVERWRITE
        if follows and state is LastRunState.ENDED:
            state = LastRunState.NONE
        runs = state is LastRunState.RUNS_HERE
        checkpoint, mismatch = (None, None) if runs else self._checkpoint(restore_path or self._last_checkpoint(run))
        return RunTraces(
            job_name=job_name,
            last_run=state,
            checkpoint=None if checkpoint is None else checkpoint.path,
            description="" if checkpoint is None else describe(checkpoint),
            mismatch=mismatch,
            folders=self._contents(counts_own=not follows),
            shows_only=self._folders.shows_only,
            note_counts=self._note_counts,
        )

    def orphan(self) -> JobId | None:
        """Return the last run if it was killed before its first checkpoint: its staged output is never published.

        The output of a run with a checkpoint may still be published by a run that continues it.
        """
        run = self._last_run
        if run is None or run.status is not None or run.job_id == self._job_graph.job_id:
            return None
        may_be_needed = self._storage.latest(run.job_id) is not None
        return None if may_be_needed or any(job.job_id == run.job_id for job in self._running) else run.job_id

    @cached_property
    def _last_run(self) -> JobRun | None:
        return self._storage.last_run(self._job_graph.name)

    @cached_property
    def _running(self) -> tuple[RunningJob, ...]:
        """Queried lazily, because the query asks other processes."""
        return running_jobs()

    def _state(self, run: JobRun | None) -> LastRunState:
        """The state of the last run. Its folder is owned, so it can only be running in this environment."""
        state = last_run_state(run, is_there=run is not None and self._storage.has_job(run.job_id))
        if run is None or run.status is not None or state is not LastRunState.LEFT_OFF:
            return state
        runs = any(job.job_id == run.job_id and job.process == os.getpid() for job in self._running)
        return LastRunState.RUNS_HERE if runs else state

    def _last_checkpoint(self, run: JobRun | None) -> str | None:
        """The last checkpoint of the last run; if an older version recorded no run, the newest checkpoint."""
        if self._job_graph.job_type is JobType.BATCH:
            return None
        if run is None:
            return newest_of_job(self._job_graph.checkpointing.directory, self._job_graph.name)
        own = run.checkpoint_path if run.status is not None else self._storage.latest(run.job_id)
        if own is not None or run.status is JobStatus.FINISHED:
            return own
        # The last run has published nothing beyond the checkpoint from which it started, unless that checkpoint
        # records a successor.
        has_gone_on = run.restore_path is not None and self._storage.continued_by(run.restore_path) is not None
        return None if has_gone_on else run.restore_path

    def _checkpoint(self, path: str | None) -> tuple[CompletedCheckpoint | None, str | None]:
        """Return the checkpoint to continue from, or the reason why the job cannot."""
        if path is None:
            return None, None
        try:
            checkpoint = find_checkpoint(path, self._job_graph.checkpointing.directory)
            check_restorable(checkpoint, self._job_graph)
        except CheckpointError as mismatch:
            return None, str(mismatch)
        return checkpoint, None

    def _contents(self, *, counts_own: bool) -> tuple[FolderContents, ...]:
        return tuple(
            FolderContents(
                path=published.folder,
                own=len(published.own) if counts_own else 0,
                others=published.by_others,
                foreign=published.foreign,
                written_by=self._writers_of(published.staging),
            )
            for published in self._folders.published
        )

    def _writers_of(self, staging: tuple[str, ...]) -> tuple[str, ...]:
        if not staging:
            return ()
        return tuple(sorted(job.name for job in self._running if file_name_part(job.job_id) in staging))


def _matching_folder(path: str, folders: SinkFolders, filesystem: FileSystem) -> str:
    target = filesystem.qualified(filesystem.absolute(path))
    same = (each.folder for each in folders.published if filesystem.qualified(each.folder) == target)
    return next(same, path)
