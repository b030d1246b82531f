"""The pending checkpoints of a job, and what is remembered of those that are over.

Late acknowledgements are told from doubled ones by the ids of the last checkpoints and the attempts that acknowledged
them (Flink's recentPendingCheckpoints).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PendingPhase, TaskAcknowledgeResult
from flykka.messages.state.handles import ExclusiveStateHandle
from flykka.messages.wire.ids import ExecutionAttemptId

RECENT_CHECKPOINTS = 16
"""The number of ended checkpoints that are remembered."""


@dataclass(slots=True)
class _Recent:
    """An ended checkpoint: its acknowledgements, and late state that was discarded."""

    acknowledged: frozenset[ExecutionAttemptId]
    discarded: set[str] = field(default_factory=set)


class PendingCheckpoints:
    """By id, oldest first."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingCheckpoint] = {}
        self._recent: dict[int, _Recent] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterate over those that are pending now, even if some end meanwhile."""
        return iter(tuple(self._pending.values()))

    def needed_from(self, completed_id: int) -> int:
        """Since which checkpoint state is needed when this one is complete: for those that stay pending, too.

        One that began before may refer to what the latest one held then, and this one does not: state that was being
        written again when the word came that it was complete already.
        """
        staying = (
            each.built_on
            for each in self._pending.values()
            if each.checkpoint_id > completed_id
            or not each.properties.can_be_subsumed
            or each.phase is PendingPhase.METADATA
        )
        return min((completed_id, *staying))

    def get(self, checkpoint_id: int) -> PendingCheckpoint | None:
        """The pending checkpoint of this id."""
        return self._pending.get(checkpoint_id)

    def use_id(self, checkpoint_id: int) -> None:
        """An id was drawn, or has been used by an earlier job. Ids only grow."""
        assert checkpoint_id > self._last_id, f"{checkpoint_id} comes after {self._last_id}"
        self._last_id = checkpoint_id

    def skip_to(self, checkpoint_id: int) -> None:
        """Ids up to this one have been used by an earlier job."""
        self._last_id = max(self._last_id, checkpoint_id)

    def add(self, pending: PendingCheckpoint) -> None:
        """A checkpoint begins."""
        assert pending.checkpoint_id == self._last_id, "a checkpoint begins with the id drawn last"
        self._pending[pending.checkpoint_id] = pending

    def remove(self, pending: PendingCheckpoint) -> None:
        """A checkpoint is over, one way or the other."""
        del self._pending[pending.checkpoint_id]
        self._recent[pending.checkpoint_id] = _Recent(pending.acknowledged)
        if len(self._recent) > RECENT_CHECKPOINTS:
            del self._recent[min(self._recent)]

    def forget_all(self) -> None:
        """None of them will come to an end here."""
        self._pending.clear()

    def expects(self, checkpoint_id: int, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
        """The result that an acknowledgement would have."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            return pending.expects(attempt)
        recent = self._recent.get(checkpoint_id)
        if recent is None:
            return TaskAcknowledgeResult.UNKNOWN
        is_known = attempt in recent.acknowledged
        return TaskAcknowledgeResult.DUPLICATE if is_known else TaskAcknowledgeResult.DISCARDED

    def discard(self, checkpoint_id: int, handles: Iterable[ExclusiveStateHandle]) -> tuple[ExclusiveStateHandle, ...]:
        """The part of this state that has not been discarded before: it may come in parts, and each part twice."""
        recent = self._recent.get(checkpoint_id)
        if recent is None:
            return tuple(handles)
        fresh = tuple(handle for handle in handles if handle.path not in recent.discarded)
        recent.discarded.update(handle.path for handle in fresh)
        return fresh

    def check(self) -> None:
        """Raise `AssertionError` where one is in a state that cannot be."""
        for checkpoint_id, pending in self._pending.items():
            pending.check()
            assert checkpoint_id == pending.checkpoint_id <= self._last_id
