"""The completed checkpoints of a job, the checkpoints being written to storage, and the files being deleted.

Mirrors Flink's CompletedCheckpointStore with its SharedStateRegistry and CheckpointsCleaner: a checkpoint is written,
retained and later subsumed. Files without references are deleted once, when the cleaner has capacity for them.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from flykka.actors.machines.checkpoint.events import DeleteJob, Dispose, ReadMetadata, WriteMetadata
from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint, for_savepoint
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state, shared_state_of, with_shared_state
from flykka.actors.machines.states import next_phase
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, SnapshotType
from flykka.messages.control.checkpoint_coordination import CheckpointingStopped, RestoreStateFailed
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import MAX_CONCURRENT_DELETIONS
from flykka.messages.state.handles import ExclusiveStateHandle, SharedStateHandle, TaskStateSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId

Handle = ExclusiveStateHandle | SharedStateHandle


class ClosingPhase(Enum):
    """The phases of a store: WAITING for writes and deletions when the job has ended, then CLEANING up."""

    OPEN = auto()
    WAITING = auto()
    CLEANING = auto()
    CLOSED = auto()


CLOSING_MOVES: dict[ClosingPhase, tuple[ClosingPhase, ...]] = {
    ClosingPhase.OPEN: (ClosingPhase.WAITING,),
    ClosingPhase.WAITING: (ClosingPhase.CLEANING,),
    ClosingPhase.CLEANING: (ClosingPhase.CLOSED,),
    ClosingPhase.CLOSED: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _WaitingRestore:
    version: int
    path: str | None
    allow_non_restored_state: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The checkpoint from which the job starts (`None`: from the beginning). The master hooks are restored first."""

    version: int
    checkpoint: CompletedCheckpoint | None
    allow_non_restored_state: bool


class CompletedCheckpointStore:
    """Retains at most `retained` checkpoints, oldest first. A newer checkpoint subsumes the oldest.

    Until the job's earlier checkpoints are read, no attempt starts and nothing is cleaned up.
    """

    def __init__(
        self,
        job_id: JobId,
        retained: int,
        properties: CheckpointProperties | None = None,
        max_concurrent_deletions: int = MAX_CONCURRENT_DELETIONS,
    ) -> None:
        """`properties` decide when the job's checkpoints are discarded."""
        if retained < 1:
            raise ValueError(f"at least one completed checkpoint has to be retained, not {retained}")
        self._job_id = job_id
        self._retained = retained
        self._properties = properties or for_checkpoint()
        self._checkpoints: list[CompletedCheckpoint] = []
        self.registry = SharedStateRegistry()
        self._writing: dict[int, WriteMetadata] = {}
        self._cleaner = CheckpointsCleaner(max_concurrent_deletions)
        self._restores_waiting: list[_WaitingRestore] = []
        self._is_recovered = False
        self._unreadable: SerializedThrowable | None = None
        self._is_foreign = False
        self._adopted: int | None = None
        self._adopted_path: str | None = None
        self._closing = ClosingPhase.OPEN
        self._status: JobStatus | None = None
        self._keeps_latest = False
        self._keeps_none = False
        self._kept: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[CompletedCheckpoint]:
        return iter(self._checkpoints)

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __contains__(self, checkpoint_id: int) -> bool:
        return any(checkpoint.checkpoint_id == checkpoint_id for checkpoint in self._checkpoints)

    @property
    def latest(self) -> CompletedCheckpoint | None:
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def writing(self) -> frozenset[int]:
        """The ids of checkpoints whose metadata is being written, including checkpoints that were aborted meanwhile."""
        return frozenset(self._writing)

    @property
    def latest_id(self) -> int:
        return self.latest.checkpoint_id if self.latest else 0

    @property
    def disposals(self) -> int:
        return len(self._cleaner)

    def check(self) -> None:
        ids = [checkpoint.checkpoint_id for checkpoint in self]
        assert len(ids) <= self._retained
        assert all(older < newer for older, newer in pairwise(ids)), ids
        self.registry.check()
        self._cleaner.check()
        referenced: dict[str, int] = {}
        for checkpoint in self:
            for state_id in _registered(checkpoint):
                referenced[state_id] = referenced.get(state_id, 0) + 1
        for state_id, references in referenced.items():
            assert self.registry.references(state_id) == references, state_id

    def add(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        assert checkpoint.checkpoint_id not in self, f"checkpoint {checkpoint.checkpoint_id} has completed already"
        insort(self._checkpoints, checkpoint, key=lambda retained: retained.checkpoint_id)
        too_many = max(0, len(self._checkpoints) - self._retained)
        subsumed, self._checkpoints = self._checkpoints[:too_many], self._checkpoints[too_many:]
        return subsumed

    def is_discarded_when_subsumed(self, checkpoint: CompletedCheckpoint) -> bool:
        return self._properties_of(checkpoint).discard_subsumed

    def shutdown(self, status: JobStatus) -> list[CompletedCheckpoint]:
        checkpoints, self._checkpoints = self._checkpoints, []
        return [
            checkpoint for checkpoint in checkpoints if status not in self._properties_of(checkpoint).discarded_when
        ]

    def acknowledge(
        self, checkpoint_id: int, state: TaskStateSnapshot | None
    ) -> tuple[TaskStateSnapshot | None, tuple[SharedStateHandle, ...]]:
        """Return the state with the registered handles, and the redundant files, whose state was already registered."""
        redundant = tuple(
            handle
            for handle in shared_state(state)
            if self.registry.acknowledge(checkpoint_id, handle).path != handle.path
        )
        return with_shared_state(state, self.registry.kept), redundant

    def is_being_added(self, checkpoint_id: int) -> bool:
        write = self._writing.get(checkpoint_id)
        return write is not None and write.is_retained

    def write(
        self, checkpoint: CompletedCheckpoint, target_location: str | None, *, is_retained: bool = True
    ) -> Iterator[WriteMetadata]:
        write = WriteMetadata(checkpoint=checkpoint, target_location=target_location, is_retained=is_retained)
        self._writing[checkpoint.checkpoint_id] = write
        yield write

    def written(self, checkpoint_id: int) -> WriteMetadata:
        assert checkpoint_id in self._writing, f"the metadata of {checkpoint_id} is not being written"
        return self._writing.pop(checkpoint_id)

    def retain(self, checkpoint: CompletedCheckpoint, *, needed_from: int) -> Iterator[Dispose]:
        """Retain a completed checkpoint, and dispose of the state that it makes unused.

        State that any checkpoint from `needed_from` onwards has acknowledged may still be referenced.
        """
        self.registry.register(_registered(checkpoint))
        yield from self._release(self.add(checkpoint), needed_from)

    def recover(
        self, completed: Iterable[CompletedCheckpoint], adopted: CompletedCheckpoint | None
    ) -> Iterator[Dispose]:
        self._is_recovered = True
        if adopted is not None:
            self.adopt(adopted)
        for checkpoint in completed:
            for handle in shared_state_of(checkpoint).values():
                if not is_savepoint(checkpoint):
                    self.registry.acknowledge(checkpoint.checkpoint_id, handle)
            yield from self.retain(checkpoint, needed_from=checkpoint.checkpoint_id)

    def fail_recovery(self, cause: SerializedThrowable) -> None:
        """Start without checkpoints because the earlier checkpoints cannot be read. All their files are retained."""
        self._is_recovered = True
        self._unreadable = cause

    def abandon(self) -> None:
        """Stop all activity: another coordinator leads the job, so this one must not delete anything."""
        self._is_foreign = True
        self._is_recovered = True
        self._writing.clear()
        self._restores_waiting.clear()
        self._cleaner.abandon()

    def adopt(self, checkpoint: CompletedCheckpoint) -> None:
        """Start from a checkpoint of another job, whose files must not be deleted here."""
        assert not len(self), "the job already has a checkpoint of its own"
        self._adopted = checkpoint.checkpoint_id
        if not is_savepoint(checkpoint):
            # A savepoint is never selected as the latest checkpoint, so it needs no note about the job.
            self._adopted_path = checkpoint.path
            self.registry.adopt(checkpoint.checkpoint_id, shared_state_of(checkpoint).values())
        self.registry.register(_registered(checkpoint))
        self.add(checkpoint)

    def discard_late(
        self,
        checkpoint_id: int,
        state: TaskStateSnapshot | None,
        exclusive: Iterable[ExclusiveStateHandle],
        *,
        attempt_lives: bool,
        needed_from: int,
    ) -> Iterator[Dispose]:
        """Dispose of state for a checkpoint that has ended, including the `exclusive` state.

        A running attempt may refer to its shared state again; an ended attempt cannot.
        """
        unneeded: list[Handle] = list(exclusive)
        if attempt_lives and self._closing is ClosingPhase.OPEN:
            unneeded += self.acknowledge(checkpoint_id, state)[1]
            acknowledged = dict.fromkeys(handle.state_id for handle in shared_state(state))
            unneeded += self.registry.release_unused(needed_from, acknowledged)
        else:
            unneeded += (handle for handle in shared_state(state) if handle not in self.registry)
        yield from self.dispose(state=unneeded)

    def dispose(
        self, *, retained: Iterable[int] = (), checkpoints: Iterable[str] = (), state: Iterable[Handle] = ()
    ) -> Iterator[Dispose]:
        ids, paths, handles = tuple(retained), tuple(checkpoints), tuple(state)
        if ids or paths or handles:
            yield from self._cleaner.add(Dispose(retained=ids, checkpoints=paths, state=handles))

    def disposal_ended(self) -> Iterator[Dispose]:
        yield from self._cleaner.ended()

    def restore(self, version: int, path: str | None = None, *, allow_non_restored_state: bool = False) -> None:
        """Request the checkpoint to start from. `resume_waiting` responds once it is known and no write is pending.

        `path` is the checkpoint of an earlier job, used if this job has no checkpoint of its own.
        """
        self._restores_waiting.append(
            _WaitingRestore(version=version, path=path, allow_non_restored_state=allow_non_restored_state)
        )

    def close(self, status: JobStatus, *, keep_latest: bool = False, keep_none: bool = False) -> None:
        """Close the store, because the job has ended. After all writes and deletions, `resume_waiting` cleans up and
        reports.

        Independent of the retention, a stopped job retains its last checkpoint (`keep_latest`), and a job that was
        cancelled together with its checkpoints retains none (`keep_none`).
        """
        assert self._closing is ClosingPhase.OPEN, "the store is closed already"
        self._status = status
        self._keeps_latest = keep_latest
        self._keeps_none = keep_none
        self._closing = next_phase(CLOSING_MOVES, self._closing, ClosingPhase.WAITING)

    def resume_waiting(
        self,
    ) -> Iterator[Restore | RestoreStateFailed | ReadMetadata | Dispose | DeleteJob | CheckpointingStopped]:
        """Perform the steps that waited for the end of a write or a deletion."""
        if self._writing or not self._is_recovered:
            return
        waiting, self._restores_waiting = self._restores_waiting, []
        for restore in waiting:
            yield self._answer(restore)
        if self._closing is ClosingPhase.WAITING and not self._cleaner:
            self._closing = next_phase(CLOSING_MOVES, self._closing, ClosingPhase.CLEANING)
            yield from self._clean_up()
        if self._closing is ClosingPhase.CLEANING and not self._cleaner:
            self._closing = next_phase(CLOSING_MOVES, self._closing, ClosingPhase.CLOSED)
            yield CheckpointingStopped(job_id=self._job_id, retained=self._kept)

    def _answer(self, restore: _WaitingRestore) -> Restore | RestoreStateFailed | ReadMetadata:
        version, allow_non_restored_state = restore.version, restore.allow_non_restored_state
        if self._unreadable is not None:
            return RestoreStateFailed(job_id=self._job_id, version=version, cause=self._unreadable)
        if restore.path is not None and not len(self):
            return ReadMetadata(version=version, path=restore.path, allow_non_restored_state=allow_non_restored_state)
        return Restore(version=version, checkpoint=self.latest, allow_non_restored_state=allow_non_restored_state)

    def _clean_up(self) -> Iterator[Dispose | DeleteJob]:
        assert self._status is not None
        checkpoints, continued = tuple(self), self._continued()
        if self._is_foreign or self._unreadable is not None:
            # The next coordinator starts from these files.
            self._kept = tuple(checkpoint.path for checkpoint in checkpoints)
            return
        retained = self.shutdown(self._status)
        if self._keeps_none:
            retained = [checkpoint for checkpoint in retained if not self._is_owned(checkpoint)]
        if self._keeps_latest:
            retained = [checkpoints[-1]]
        self._kept = tuple(checkpoint.path for checkpoint in retained if self._is_owned(checkpoint))
        if self._kept:
            yield from self._release([checkpoint for checkpoint in checkpoints if checkpoint not in retained], None)
        else:
            self._cleaner.add_last()
            yield DeleteJob(continued=continued)

    def _release(self, removed: list[CompletedCheckpoint], completed_id: int | None) -> Iterator[Dispose]:
        for older in removed:
            self.registry.unregister(_registered(older))
        owned = [older for older in removed if self._is_owned(older)]
        unused = self.registry.release_unused(completed_id)
        yield from self.dispose(
            retained=[older.checkpoint_id for older in removed if older.checkpoint_id != self._adopted],
            checkpoints=[older.path for older in owned],
            state=[*(handle for older in owned for handle in exclusive_state_of(older)), *unused],
        )

    def _continued(self) -> str | None:
        latest = self.latest
        return None if latest is None or latest.checkpoint_id == self._adopted else self._adopted_path

    def _is_owned(self, checkpoint: CompletedCheckpoint) -> bool:
        is_ours = checkpoint.checkpoint_id != self._adopted
        return is_ours and self.is_discarded_when_subsumed(checkpoint)

    def _properties_of(self, checkpoint: CompletedCheckpoint) -> CheckpointProperties:
        return for_savepoint() if is_savepoint(checkpoint) else self._properties


def is_savepoint(checkpoint: CompletedCheckpoint) -> bool:
    return checkpoint.snapshot_type is SnapshotType.SAVEPOINT


def _registered(checkpoint: CompletedCheckpoint) -> Iterable[str]:
    """Return the ids of reference-counted state. The files of a savepoint belong to the user and are not shared."""
    return () if is_savepoint(checkpoint) else shared_state_of(checkpoint)


class CheckpointsCleaner:
    """Deletes unneeded files in the background, at most `max_concurrent` deletions at a time.

    Mirrors Flink's CheckpointsCleaner. The load includes waiting deletions: the coordinator begins no checkpoint while
    the load is too high. Deletions begin in the order of their requests, so that the oldest checkpoints leave the store
    first. State without a checkpoint, which late tasks report in many small parts, is deleted together.
    """

    def __init__(self, max_concurrent: int) -> None:
        if max_concurrent < 1:
            raise ValueError(f"at least one deletion has to be allowed at a time, not {max_concurrent}")
        self._max_concurrent = max_concurrent
        self._under_way = 0
        self._waiting: deque[Dispose] = deque()

    def __len__(self) -> int:
        return self._under_way + len(self._waiting)

    def add(self, disposal: Dispose) -> Iterator[Dispose]:
        self._waiting.append(disposal)
        yield from self._begin()

    def add_last(self) -> None:
        assert not self, "another deletion is still running"
        self._under_way += 1

    def ended(self) -> Iterator[Dispose]:
        assert self._under_way > 0, "no deletion is running"
        self._under_way -= 1
        yield from self._begin()

    def abandon(self) -> None:
        self._under_way = 0
        self._waiting.clear()

    def check(self) -> None:
        assert 0 <= self._under_way <= self._max_concurrent
        assert not self._waiting or self._under_way == self._max_concurrent

    def _begin(self) -> Iterator[Dispose]:
        while self._waiting and self._under_way < self._max_concurrent:
            self._under_way += 1
            yield self._next()

    def _next(self) -> Dispose:
        first = self._waiting.popleft()
        if not _is_state_only(first):
            return first
        state = list(first.state)
        while self._waiting and _is_state_only(self._waiting[0]):
            state += self._waiting.popleft().state
        return Dispose(state=tuple(state))


def _is_state_only(disposal: Dispose) -> bool:
    return not disposal.retained and not disposal.checkpoints


@dataclass(slots=True, kw_only=True)
class _Entry:
    handle: SharedStateHandle
    last_used: int
    owned: bool
    references: int = 0


class SharedStateRegistry:
    """Counts references to shared state, and finds files that are no longer needed.

    A file is written once, acknowledged by many checkpoints, and registered for each completed checkpoint that refers
    to it. A file is deleted when no retained checkpoint refers to it and a checkpoint newer than its last
    acknowledgement has completed: until then, an attempt that wrote the file for an aborted checkpoint may still refer
    to it (Flink's SharedStateRegistry since 1.15).
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # `release_unused` iterates over these few states, not over the whole registry, which is as large as the job's
        # state.
        self._unreferenced: dict[str, None] = {}

    def __contains__(self, handle: SharedStateHandle) -> bool:
        return handle.state_id in self._entries

    def references(self, state_id: str) -> int:
        return self._entries[state_id].references if state_id in self._entries else 0

    def acknowledge(self, checkpoint_id: int, handle: SharedStateHandle) -> SharedStateHandle:
        """Register a reference by a checkpoint that may complete. Returns the handle that is used for the state.

        If the state is already known, its first handle is returned, and the file that was written again is not needed.
        """
        entry = self._entries.get(handle.state_id)
        if entry is None:
            self._enter(_Entry(handle=handle, last_used=checkpoint_id, owned=True))
            return handle
        entry.last_used = max(entry.last_used, checkpoint_id)
        return entry.handle

    def kept(self, handle: SharedStateHandle) -> SharedStateHandle:
        return self._entries[handle.state_id].handle

    def adopt(self, checkpoint_id: int, handles: Iterable[SharedStateHandle]) -> None:
        """Register files of another job. They are referenced, and never discarded."""
        for handle in handles:
            self._enter(_Entry(handle=handle, last_used=checkpoint_id, owned=False))

    def register(self, state_ids: Iterable[str]) -> None:
        """Count a completed checkpoint that refers to these states. Each id occurs once."""
        for state_id in state_ids:
            self._entries[state_id].references += 1
            self._unreferenced.pop(state_id, None)

    def unregister(self, state_ids: Iterable[str]) -> None:
        for state_id in state_ids:
            entry = self._entries[state_id]
            assert entry.references > 0, f"{state_id} is unregistered more often than registered"
            entry.references -= 1
            if entry.references == 0:
                self._unreferenced[state_id] = None

    def release_unused(
        self, completed_id: int | None = None, among: Iterable[str] | None = None
    ) -> tuple[SharedStateHandle, ...]:
        """Remove the states that are unneeded once `completed_id` is complete (`None`: no checkpoint will follow).

        Returns the handles to delete. A caller that knows which states have changed since the last call passes their
        ids, each once, as `among`.
        """
        unused = [
            state_id
            for state_id in (self._unreferenced if among is None else among)
            if state_id in self._unreferenced
            and (completed_id is None or self._entries[state_id].last_used < completed_id)
        ]
        for state_id in unused:
            del self._unreferenced[state_id]
        entries = [self._entries.pop(state_id) for state_id in unused]
        return tuple(entry.handle for entry in entries if entry.owned)

    def check(self) -> None:
        for state_id, entry in self._entries.items():
            assert entry.references >= 0, state_id
            assert (entry.references == 0) == (state_id in self._unreferenced), state_id
        assert self._unreferenced.keys() <= self._entries.keys()

    def _enter(self, entry: _Entry) -> None:
        self._entries[entry.handle.state_id] = entry
        self._unreferenced[entry.handle.state_id] = None
