"""Finds out what there is of a job that may have run before, and starts it as was decided.

`continuation.py` decides. Looked at are the note of the last run, below the checkpoint directory; the checkpoint
that it left; and the folders of the job's sinks. All are owned first: no other process runs the job meanwhile.
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
    Found,
    LastRunState,
    Refusal,
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
    """The start of one job: the graph to submit, and the checkpoint or savepoint that it starts from."""

    job_graph: JobGraph
    restore_path: str | None
    runs: bool = True
    """True if it runs: a job that has ended already is answered with its result."""

    def note(self) -> None:
        """Note that the job runs, for the run after it."""
        if not self.runs:
            return
        run = JobRun(job_id=self.job_graph.job_id, job_name=self.job_graph.name, restore_path=self.restore_path)
        checkpointing = self.job_graph.checkpointing
        try:
            CheckpointStorage.of(checkpointing).record_run(run)
        except OSError as refused:
            # It was accepted and runs: it is not given up for this.
            logger.warning("job %r cannot be continued by itself: its run cannot be noted: %s", run.job_name, refused)


class JobStarts:
    """Of one environment. Used by the thread that executes its jobs."""

    def __init__(self, registry: CodeRegistry, owners: JobOwners) -> None:
        self._registry, self._owners = registry, owners
        self._owned = JobId("")
        # With the run of the cell in which it was submitted, in a notebook.
        self._last: dict[str, tuple[JobClient, int | None]] = {}

    def remember(self, client: JobClient) -> None:
        """A job was submitted: the next one of its name follows it."""
        self._last[client.job_name] = client, running_cell()

    def prepare_start(
        self,
        said: JobSettings,
        job_graph: JobGraph,
        session: SparkSession,
        cluster: Callable[[], LocalCluster],
        *,
        has_store: bool,
        was_named: bool,
    ) -> JobStart:
        """Own the folders of a job, decide how it starts, say so, and delete what is to be overwritten.

        `was_named`: the checkpoint directory is one that was named, or a store's, and not a temporary folder.
        `cluster` is started where there is a store of high availability to ask, or something to delete.

        Raises:
            CheckpointError: what it is to continue from is not there, cannot be read or does not fit (the text names
                the operators); or the checkpoint directory cannot be used.
            DuplicateJobSubmissionError: it would publish rows twice, or another process runs it.
            ClusterError: it is to begin with its input, and its store has it to go on with; or the store cannot be
                used.
            SinkError: the folder of a sink cannot be looked into.
        """
        self._owned = job_graph.job_id
        try:
            return self._decide(said, job_graph, session, cluster, has_store=has_store, was_named=was_named)
        except BaseException:
            self._owners.release(self._owned, unused=True)
            raise

    def _decide(
        self,
        said: JobSettings,
        job_graph: JobGraph,
        session: SparkSession,
        cluster: Callable[[], LocalCluster],
        *,
        has_store: bool,
        was_named: bool,
    ) -> JobStart:
        mode, named = said.start.mode, None
        if mode is StartMode.CHECKPOINT:
            checkpoint = find_checkpoint(str(said.start.restore_from), said.checkpointing.directory)
            check_restorable(checkpoint, job_graph, allow_non_restored_state=said.start.allow_non_restored_state)
            named = checkpoint.path
        if not has_store:
            # Before what is there is looked at: while another process runs the job all of it may change.
            self._own(job_graph, session, shares=not was_named)
        if has_store:
            known = self._known(said, job_graph, named, cluster(), session)
            job_graph, named = known.job_graph, known.restore_path
            if not known.has_ended:
                self._own(job_graph, session, shares=not was_named)
            if known.has_ended or known.goes_on:
                return JobStart(job_graph=job_graph, restore_path=named, runs=not known.has_ended)
        folders = sink_folders(job_graph, self._registry, FileSystem(session))
        finished = self._has_finished(job_graph.name)
        follows = finished and self._last[job_graph.name][1] == running_cell()
        search = _TraceSearch(job_graph, folders, follows_itself=follows, note_counts=was_named and not finished)
        overwritten = tuple(_as_the_sink_has_it(path, folders, FileSystem(session)) for path in said.start.overwritten)
        try:
            found = search.found(mode, named)
        except CheckpointStorageError as unreadable:
            raise CheckpointError(f"job {job_graph.name!r} was not submitted: {unreadable}") from unreadable
        words = COMMAND_LINE if current_launch().takes_options else PYTHON
        match decide(found, mode, overwritten, words):
            case Start() as start:
                pass
            case Refusal(reason=reason, is_misfit=True):
                raise CheckpointError(reason)
            case Refusal(reason=reason):
                raise DuplicateJobSubmissionError(reason)
            case unreachable:
                assert_never(unreachable)
        for text in start.says:
            current_launch().say(text)
        orphan = search.orphan()
        if orphan is not None:
            delete_staged(job_graph, self._registry, FileSystem(session), orphan)
        if start.restore_path is not None:
            _say_other_settings(read_checkpoint(start.restore_path), job_graph)
        if start.overwrites:
            cluster().check(job_graph)
            delete_published(job_graph, self._registry, FileSystem(session), start.overwrites)
        return JobStart(job_graph=job_graph, restore_path=start.restore_path)

    def _own(self, job_graph: JobGraph, session: SparkSession, *, shares: bool) -> None:
        """Own the folders of a job; jobs that share a temporary folder may share a name as well."""
        say, self._owned = current_launch().say, job_graph.job_id
        try:
            self._owners.acquire(job_graph, FileSystem(session), say, shares=shares, is_lenient=True)
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

    def _known(
        self, said: JobSettings, job_graph: JobGraph, named: str | None, cluster: LocalCluster, session: SparkSession
    ) -> IdentifiedJob:
        """The job in the store of high availability: under the id that it has there."""

        def say_that_it_waits(text: str) -> None:
            current_launch().say(text)
            if FastPaths.of(session).warm_up:
                warm_up_in_background(session)

        begins = said.start.mode in (StartMode.FRESH, StartMode.OVERWRITE)
        identified = cluster.identify(
            job_graph,
            named,
            allow_non_restored_state=said.start.allow_non_restored_state,
            repeats=begins,
            say=say_that_it_waits,
        )
        if identified.goes_on and begins and not identified.has_ended:
            raise ClusterError(
                f"job {job_graph.name!r} is in its store of high availability, unfinished, and cannot begin with"
                " its input there: run it without --fresh and --overwrite, and stop it first; or give it another store"
            )
        if identified.checkpoint is not None and not identified.has_ended:
            current_launch().say(f"continuing {job_graph.name!r} from {described(identified.checkpoint)}")
            _say_other_settings(identified.checkpoint, job_graph)
        return identified

    def _has_finished(self, job_name: str) -> bool:
        """True if a job of this name has come to the end of its input in this environment."""
        last, _ = self._last.get(job_name, (None, None))
        return last is not None and last.status is JobStatus.FINISHED and last.details.kept_checkpoint is None


def described(checkpoint: CompletedCheckpoint) -> str:
    """A checkpoint, as is told where a job goes on from it: its number, when it was taken, and where it is."""
    taken = datetime.fromtimestamp(checkpoint.timestamp_ms / 1000)
    when = f"{taken:%H:%M:%S}" if taken.date() == datetime.now().date() else f"{taken:%Y-%m-%d %H:%M:%S}"
    kind = "savepoint" if is_savepoint(checkpoint.path) else "checkpoint"
    return f"{kind} {checkpoint.checkpoint_id} of {when} ({checkpoint.path})"


def _say_other_settings(checkpoint: CompletedCheckpoint, job_graph: JobGraph) -> None:
    for setting in other_settings(checkpoint, job_graph):
        current_launch().say(
            f"job {job_graph.name!r} continues with another setting of Spark's session than {checkpoint.path} was taken"
            f" with: {setting}; state and rows of before are mixed with results that are computed otherwise"
        )


class _TraceSearch:
    """A search for the traces of a job: its last run, where that left off, and the contents of its sinks' folders.

    One that `follows_itself` is not the first of its name that finishes in its environment, in a notebook in one run of
    a cell: it is meant to. Where the note of the last run does not count, it is looked at all the same (see `Found`).
    """

    def __init__(
        self, job_graph: JobGraph, folders: SinkFolders, *, follows_itself: bool, note_counts: bool = True
    ) -> None:
        self._job_graph = job_graph
        self._folders = folders
        self._follows_itself = follows_itself
        self._note_counts = note_counts
        self._storage = CheckpointStorage(job_graph.checkpointing.directory)

    def found(self, mode: StartMode, named: str | None) -> Found:
        """All of it. `named` is where the job is to go on from, by the user or by its store."""
        job_name = self._job_graph.name
        if mode is StartMode.CHECKPOINT:
            return Found(job_name=job_name, checkpoint=named, folders=self._contents(counts_own=True))
        run = self._last_run
        state = self._state(run)
        follows = self._follows_itself and mode is not StartMode.OVERWRITE
        if follows and state is LastRunState.ENDED:
            state = LastRunState.NONE
        runs = state is LastRunState.RUNS_HERE
        checkpoint, misfit = (None, None) if runs else self._checkpoint(named or self._left_off(run))
        return Found(
            job_name=job_name,
            last_run=state,
            checkpoint=None if checkpoint is None else checkpoint.path,
            described="" if checkpoint is None else described(checkpoint),
            misfit=misfit,
            folders=self._contents(counts_own=not follows),
            shows_only=self._folders.shows_only,
            note_counts=self._note_counts,
        )

    def orphan(self) -> JobId | None:
        """The last run, where it was killed before it had a checkpoint: nobody will publish what it has staged.

        One that has a checkpoint may be gone on with from there, by this run or by a later one.
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
        """Asked of other processes, and so only where it matters."""
        return running_jobs()

    def _state(self, run: JobRun | None) -> LastRunState:
        """The state of the last run. Its folder is owned: where it still runs, it does so in this environment."""
        state = last_run_state(run, is_there=run is not None and self._storage.has_job(run.job_id))
        if run is None or run.status is not None or state is not LastRunState.LEFT_OFF:
            return state
        runs = any(job.job_id == run.job_id and job.process == os.getpid() for job in self._running)
        return LastRunState.RUNS_HERE if runs else state

    def _left_off(self, run: JobRun | None) -> str | None:
        """The checkpoint at which the last run left off; its newest one where an older version has noted none."""
        if self._job_graph.job_type is JobType.BATCH:
            return None
        if run is None:
            return newest_of_job(self._job_graph.checkpointing.directory, self._job_graph.name)
        own = run.checkpoint_path if run.status is not None else self._storage.latest(run.job_id)
        if own is not None or run.status is JobStatus.FINISHED:
            return own
        # It has published nothing that is not in the checkpoint it began with, unless that one tells otherwise.
        has_gone_on = run.restore_path is not None and self._storage.continued_by(run.restore_path) is not None
        return None if has_gone_on else run.restore_path

    def _checkpoint(self, path: str | None) -> tuple[CompletedCheckpoint | None, str | None]:
        """The checkpoint to go on from, or why the job cannot."""
        if path is None:
            return None, None
        try:
            checkpoint = find_checkpoint(path, self._job_graph.checkpointing.directory)
            check_restorable(checkpoint, self._job_graph)
        except CheckpointError as misfit:
            return None, str(misfit)
        return checkpoint, None

    def _contents(self, *, counts_own: bool) -> tuple[FolderContents, ...]:
        return tuple(
            FolderContents(
                path=published.folder,
                own=len(published.own) if counts_own else 0,
                others=published.by_others,
                foreign=published.foreign,
                written_by=self._written_by(published.staging),
            )
            for published in self._folders.published
        )

    def _written_by(self, staging: tuple[str, ...]) -> tuple[str, ...]:
        if not staging:
            return ()
        return tuple(sorted(job.name for job in self._running if file_name_part(job.job_id) in staging))


def _as_the_sink_has_it(path: str, folders: SinkFolders, filesystem: FileSystem) -> str:
    """The folder of a sink that is meant, or the path as it is."""
    meant = filesystem.qualified(filesystem.absolute(path))
    same = (each.folder for each in folders.published if filesystem.qualified(each.folder) == meant)
    return next(same, path)
