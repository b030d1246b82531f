"""The folders that an environment owns for its jobs: the checkpoint folders, and the targets of sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING

from flykka.actors.errors import OwnershipLostError
from flykka.actors.ownership.folders import checkpoint_folder, own, sink_folder
from flykka.actors.ownership.ownership import LEASE_MS, Ownership, Say, Waiting, now
from flykka.spark_bridge.connectors.job_sinks import staging_roots, take_over_staged

if TYPE_CHECKING:
    from flykka.actors.ownership.owner_lease import LeaseFiles
    from flykka.actors.ownership.ownership import OwnedFolder
    from flykka.messages.graph.job_graph import JobGraph
    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.rows.filesystem import FileSystem

logger = logging.getLogger("flykka")


@dataclass(frozen=True, slots=True, eq=False)
class JobOwner:
    job_id: JobId
    owners: JobOwners

    @property
    def number(self) -> int:
        return self.owners.number_of(self.job_id)

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process owns a folder. Cheap while the lease cannot have expired."""
        for ownership in self.owners.ownerships_of(self.job_id):
            ownership.check()

    def confirm(self) -> None:
        """Raise `OwnershipLostError` if another process owns a folder, and also check the store of leased folders."""
        for ownership in self.owners.ownerships_of(self.job_id):
            ownership.confirm()


@dataclass(slots=True, eq=False)
class _OwnedJobs:
    folder: OwnedFolder
    ownership: Ownership
    jobs: list[JobId] = field(default_factory=list)


class JobOwners:
    """Thread-safe."""

    def __init__(
        self,
        registry: CodeRegistry,
        *,
        lease_ms: int = LEASE_MS,
        store: str = "",
        leads: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = now,
    ) -> None:
        """With a high-availability `store`, acquiring waits until a folder's owner has ended or lost leadership."""
        self._registry = registry
        self._lease_ms = lease_ms
        self._store, self._leads, self._clock = store, leads, clock
        self._lock = Lock()
        self._stops_waiting = Event()
        self._owned: dict[str, _OwnedJobs] = {}
        self.on_lost: Callable[[JobId, OwnershipLostError], object] = lambda job_id, error: None

    def acquire(
        self,
        job_graph: JobGraph,
        filesystem: FileSystem,
        say: Say,
        *,
        shares: bool = False,
        is_lenient: bool = False,
    ) -> None:
        """Acquire the folders of a job that are not owned yet. May block, which is reported to `say`.

        With `shares`, another job of the same name and environment may own them too. With `is_lenient`, an unusable
        folder is skipped, because the job will be rejected for it later.

        Raises:
            JobOwnershipError: another process owns a folder, or its record cannot be used. Then none is acquired.
            OSError, ValueError, ImportError: a folder cannot be used.
        """
        waiting = Waiting(
            say=say, patient=bool(self._store), leads=self._leads, now=self._clock, pause=self._stops_waiting.wait
        )
        job_id = job_graph.job_id
        acquired: list[str] = []
        try:
            for folder, files in self._folders(job_graph, filesystem, is_lenient=is_lenient):
                if self._has(folder, job_id, shares=shares):
                    continue
                try:
                    ownership = own(folder, waiting, files)
                except OSError as refused:
                    if not is_lenient:
                        raise
                    logger.debug("cannot take ownership of %s yet: %s", folder.folder, refused)
                    continue
                with self._lock:
                    self._owned[folder.file] = _OwnedJobs(folder, ownership, [job_id])
                acquired.append(folder.file)
                ownership.start(partial(self._on_lost, folder.file))
            self.take_over(job_graph, filesystem, job_id)
        except BaseException:
            for file in acquired:
                self._release(file, job_id, unused=True)
            raise

    def take_over(self, job_graph: JobGraph, filesystem: FileSystem, run: JobId) -> None:
        """Move rows that the former owner has staged for a run of the job, because that owner may be paused and resume.

        Raises:
            OwnershipLostError: there is a later owner than this process.
            SinkError: a folder cannot be moved.
        """
        number = self.number_of(job_graph.job_id)
        if number:
            take_over_staged(job_graph, self._registry, filesystem, run, number)

    def ownerships_of(self, job_id: JobId) -> list[Ownership]:
        with self._lock:
            return [owned.ownership for owned in self._owned.values() if job_id in owned.jobs]

    def number_of(self, job_id: JobId) -> int:
        """Return this owner's fencing number for the job's checkpoint folder; 0 if the folder is not owned."""
        with self._lock:
            owned = (each for each in self._owned.values() if job_id in each.jobs and each.folder.of_checkpoints)
            return next((each.ownership.number for each in owned), 0)

    def still_owns(self, job_id: JobId) -> bool:
        """Return True if no other process has taken over a folder of the job. Otherwise nothing may be deleted."""
        try:
            JobOwner(job_id, self).confirm()
        except (OwnershipLostError, OSError) as lost:
            logger.warning("files of job %s are not deleted: %s", job_id, lost)
            return False
        return True

    def release(self, job_id: JobId, *, unused: bool = False) -> None:
        """Release the folders of a job. With `unused`, they are left as they were found. May be repeated."""
        with self._lock:
            files = [file for file, owned in self._owned.items() if job_id in owned.jobs]
        for file in reversed(files):
            self._release(file, job_id, unused=unused)

    def give_up_waiting(self) -> None:
        self._stops_waiting.set()

    def close(self) -> None:
        self.give_up_waiting()
        with self._lock:
            jobs = {job_id for owned in self._owned.values() for job_id in owned.jobs}
        for job_id in jobs:
            self.release(job_id)

    def _has(self, folder: OwnedFolder, job_id: JobId, *, shares: bool) -> bool:
        with self._lock:
            owned = self._owned.get(folder.file)
            if owned is None:
                return False
            if job_id not in owned.jobs:
                if not shares:
                    raise folder.refusal(None, is_here=True)
                owned.jobs.append(job_id)
            return True

    def _release(self, file: str, job_id: JobId, *, unused: bool) -> None:
        with self._lock:
            owned = self._owned.get(file)
            if owned is None or job_id not in owned.jobs:
                return  # Another thread has released it already.
            owned.jobs.remove(job_id)
            if owned.jobs:
                return
            del self._owned[file]
        try:
            owned.ownership.release(unused=unused)
        except OSError as refused:
            logger.warning("%s cannot be released, which delays the next run: %s", file, refused)

    def _on_lost(self, file: str, error: OwnershipLostError) -> None:
        with self._lock:
            owned = self._owned.get(file)
            jobs = () if owned is None else tuple(owned.jobs)
        for job_id in jobs:
            self.on_lost(job_id, error)

    def _folders(
        self, job_graph: JobGraph, filesystem: FileSystem, *, is_lenient: bool
    ) -> Iterator[tuple[OwnedFolder, LeaseFiles | None]]:
        settings = job_graph.checkpointing
        with suppress(*((OSError, ValueError, ImportError) if is_lenient else ())):
            checkpoints = checkpoint_folder(
                settings.directory, job_graph.name, self._lease_ms, self._store, settings.permissions
            )
            yield checkpoints, None
            for root in staging_roots(job_graph, self._registry):
                local = filesystem.local(root)
                files = None if local is not None else HadoopFiles(filesystem, root)
                folder = sink_folder(root.rsplit("/", 1)[0], root if local is None else local, checkpoints)
                yield folder, files


class HadoopFiles:
    """The files of records in a folder that Spark's file systems can access. Implements `LeaseFiles`."""

    def __init__(self, filesystem: FileSystem, folder: str) -> None:
        self._filesystem, self._folder = filesystem, folder
        # HDFS decides in its NameNode. For object stores, Hadoop checks first and writes later.
        self.creates_exclusively = filesystem.qualified(folder).startswith(("hdfs:", "file:"))

    def names(self) -> list[str]:
        return [status.name for status in self._filesystem.list(self._folder) if not status.is_folder]

    def read(self, name: str) -> bytes:
        return self._filesystem.read(f"{self._folder}/{name}")

    def create(self, name: str, data: bytes) -> None:
        self._filesystem.write(f"{self._folder}/{name}", data, overwrite=False)

    def write(self, name: str, data: bytes) -> None:
        self._filesystem.write(f"{self._folder}/{name}", data)

    def remove(self, name: str) -> None:
        self._filesystem.delete(f"{self._folder}/{name}")
        self._filesystem.delete_if_empty(self._folder)
