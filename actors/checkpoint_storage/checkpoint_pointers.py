"""Pointers to one job's checkpoints in the store, with the ids and the current owner, for its next coordinator.

Each completed checkpoint has a pointer to its metadata. Writing the pointer completes the checkpoint: the write is a
compare-and-set that succeeds only for the job's current coordinator under the current leader (Flink's
CompletedCheckpointStore and CheckpointIDCounter).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from flykka.actors.errors import LeadershipLostError
from flykka.messages.control.high_availability import CheckpointPointer, CheckpointsOwner, NextCheckpointId
from flykka.messages.wire.codec import encode
from flykka.messages.wire.message import Value
from flykka.messages.wire.tags import trace_tag

V = TypeVar("V", bound=Value)


class Writes(Protocol):
    def read(self, path: str, expected: type[V]) -> V | None: ...

    def names(self, path: str) -> tuple[str, ...]: ...

    def write(self, path: str, value: Value, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        """Set a value if all `expected` values match, and return None. Otherwise return the first path that differs."""

    def remove(self, path: str, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        """Remove a value if all `expected` values match. Otherwise return the first path that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredPointers:
    """The pointers that a coordinator recovers: the completed checkpoints of its job, oldest first.

    `adopted` is the checkpoint of an earlier job from which this job started. `first_id` is the first of the drawn ids.
    """

    completed: tuple[CheckpointPointer, ...]
    adopted: CheckpointPointer | None
    first_id: int


@trace_tag("checkpoint_storage.pointers")
class CheckpointPointers:
    """The pointers of one job. Methods with an `owner` raise `LeadershipLostError` unless it is the current owner."""

    def __init__(self, store: Writes, job: str) -> None:
        self._store = store
        self._owner = f"{job}/owner"
        self._next_id = f"{job}/next-checkpoint-id"
        self._adopted = f"{job}/adopted"
        self._completed = f"{job}/checkpoints"

    def recover(self, owner: str, ids: int) -> RecoveredPointers:
        """Become the owner, which fences off every earlier owner, and draw `ids` checkpoint ids."""
        self._store.write(self._owner, CheckpointsOwner(owner=owner))
        return RecoveredPointers(
            completed=self._pointers(),
            adopted=self._store.read(self._adopted, CheckpointPointer),
            first_id=self.draw_ids(owner, ids),
        )

    def latest(self) -> CheckpointPointer | None:
        """Return the last completed checkpoint. The caller need not be the owner."""
        return next(reversed(self._pointers()), None)

    def draw_ids(self, owner: str, ids: int, at_least: int = 1) -> int:
        """Reserve `ids` consecutive checkpoint ids, from `at_least` up. Returns the first id. No id is drawn twice."""
        while True:
            next_id = self._store.read(self._next_id, NextCheckpointId)
            first = max(at_least, 1 if next_id is None else next_id.checkpoint_id)
            next_after = NextCheckpointId(checkpoint_id=first + ids)
            expected = {self._next_id: None if next_id is None else encode(next_id)}
            if not self._differs(self._store.write(self._next_id, next_after, self._owned(owner) | expected), owner):
                return first

    def adopt(self, owner: str, pointer: CheckpointPointer) -> None:
        """Record that the job starts from this checkpoint of an earlier job, whose files it does not own."""
        self._differs(self._store.write(self._adopted, pointer, self._owned(owner)), owner)

    def add(self, owner: str, pointer: CheckpointPointer) -> None:
        path = f"{self._completed}/{pointer.checkpoint_id}"
        exists = self._differs(self._store.write(path, pointer, self._owned(owner) | {path: None}), owner)
        assert not exists, f"checkpoint {pointer.checkpoint_id} has completed already"

    def remove(self, owner: str, checkpoint_ids: Iterable[int]) -> None:
        """Remove these checkpoints if present. Then no job can start from them, and their files can be deleted."""
        for checkpoint_id in checkpoint_ids:
            self._differs(self._store.remove(f"{self._completed}/{checkpoint_id}", self._owned(owner)), owner)

    def remove_all(self, owner: str) -> None:
        """Remove every checkpoint. The owner is checked even if there are no checkpoints."""
        self._differs(self._store.write(self._owner, CheckpointsOwner(owner=owner), self._owned(owner)), owner)
        self.remove(owner, [int(name) for name in self._names()])

    def forget(self) -> None:
        self._store.remove(self._owner)
        for name in self._names():
            self._store.remove(f"{self._completed}/{name}")
        for path in (self._adopted, self._next_id):
            self._store.remove(path)

    def _names(self) -> tuple[str, ...]:
        return self._store.names(self._completed)

    def _pointers(self) -> tuple[CheckpointPointer, ...]:
        pointers = (self._store.read(f"{self._completed}/{name}", CheckpointPointer) for name in self._names())
        return tuple(sorted((each for each in pointers if each is not None), key=lambda each: each.checkpoint_id))

    def _owned(self, owner: str) -> dict[str, bytes | None]:
        return {self._owner: encode(CheckpointsOwner(owner=owner))}

    def _differs(self, path: str | None, owner: str) -> bool:
        if path == self._owner:
            raise LeadershipLostError(f"{owner} does not coordinate the checkpoints of its job any more")
        return path is not None
