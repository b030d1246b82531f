"""Counts references to shared state, and finds files that are no longer needed.

A file is written once and acknowledged by many checkpoints. It is registered for each completed checkpoint that refers
to it, and goes when no retained one does and a checkpoint newer than its last acknowledgement has completed: until
then an attempt that wrote it for a checkpoint that was given up may still refer to it (Flink's SharedStateRegistry
since 1.15).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flykka.messages.state.handles import SharedStateHandle


@dataclass(slots=True, kw_only=True)
class _Entry:
    handle: SharedStateHandle
    last_used: int
    owned: bool
    references: int = 0


class SharedStateRegistry:
    """Shared state by `state_id`, with the number of retained checkpoints that refer to it."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # What release_unused looks through: few, where the registry as a whole is as large as the job's state.
        self._unreferenced: dict[str, None] = {}

    def __contains__(self, handle: SharedStateHandle) -> bool:
        return handle.state_id in self._entries

    def references(self, state_id: str) -> int:
        """The number of retained checkpoints that refer to it."""
        return self._entries[state_id].references if state_id in self._entries else 0

    def acknowledge(self, checkpoint_id: int, handle: SharedStateHandle) -> SharedStateHandle:
        """A checkpoint that may complete refers to this state: the handle under which it is kept.

        It is another one where the state is known already; what was written again is then not needed.
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
        """Enter files that belong to somebody else: they are referred to, and never discarded."""
        for handle in handles:
            self._enter(_Entry(handle=handle, last_used=checkpoint_id, owned=False))

    def register(self, state_ids: Iterable[str]) -> None:
        """A checkpoint that refers to these is complete. Each id is given once."""
        for state_id in state_ids:
            self._entries[state_id].references += 1
            self._unreferenced.pop(state_id, None)

    def unregister(self, state_ids: Iterable[str]) -> None:
        """A completed checkpoint that referred to these is gone."""
        for state_id in state_ids:
            entry = self._entries[state_id]
            assert entry.references > 0, f"{state_id} is unregistered more often than registered"
            entry.references -= 1
            if entry.references == 0:
                self._unreferenced[state_id] = None

    def release_unused(
        self, completed_id: int | None = None, among: Iterable[str] | None = None
    ) -> tuple[SharedStateHandle, ...]:
        """Forget what nobody needs once `completed_id` is complete (None: no checkpoint will follow); discard it.

        A caller that knows which states have changed since the last time names them (`among`); each id once.
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
        """Raise `AssertionError` where an entry is counted wrongly."""
        for state_id, entry in self._entries.items():
            assert entry.references >= 0, state_id
            assert (entry.references == 0) == (state_id in self._unreferenced), state_id
        assert self._unreferenced.keys() <= self._entries.keys()

    def _enter(self, entry: _Entry) -> None:
        self._entries[entry.handle.state_id] = entry
        self._unreferenced[entry.handle.state_id] = None
