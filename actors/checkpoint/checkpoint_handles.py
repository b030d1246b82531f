"""Where completed checkpoints are kept for whoever takes a job over: by id, with who holds them.

Mirrors Flink's StateHandleStore, whose locks keep one leader from discarding what another one has recovered. A
coordinator of ours has no rival and is given none: whoever goes on with its job begins with what is in the storage.
"""

from __future__ import annotations

from flykka.messages.checkpoint_metadata import CompletedCheckpoint


class CheckpointHandles:
    """An entry goes with the last one who holds it; one that nobody holds waits for the next."""

    def __init__(self) -> None:
        self._entries: dict[int, CompletedCheckpoint] = {}
        self._holders: dict[int, set[object]] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The checkpoints that are there, oldest first."""
        return tuple(sorted(self._entries))

    def is_held(self, checkpoint_id: int) -> bool:
        """Whether anybody holds it."""
        return bool(self._holders.get(checkpoint_id))

    def add(self, holder: object, checkpoint: CompletedCheckpoint) -> None:
        """Keep it and hold it."""
        self._entries[checkpoint.checkpoint_id] = checkpoint
        self._holders.setdefault(checkpoint.checkpoint_id, set()).add(holder)

    def hold_all(self, holder: object) -> list[CompletedCheckpoint]:
        """Hold everything that is there, oldest first."""
        for holders in self._holders.values():
            holders.add(holder)
        return [self._entries[checkpoint_id] for checkpoint_id in self.ids]

    def remove(self, holder: object, checkpoint_id: int) -> bool:
        """Hold it no longer; whether it is gone with that."""
        holders = self._holders[checkpoint_id]
        holders.discard(holder)
        if holders:
            return False
        del self._entries[checkpoint_id], self._holders[checkpoint_id]
        return True

    def release_all(self, holder: object) -> None:
        """Hold nothing any more, and leave everything where it is."""
        for holders in self._holders.values():
            holders.discard(holder)
