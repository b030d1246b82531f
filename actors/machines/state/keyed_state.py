"""Keyed state in a checkpoint: the rows of it that a subtask reads, and the notes about them.

A state may come in pieces, one for each subtask that had some of the subtask's key groups. Where all rows of a piece
are the subtask's own, its files are referred to by the checkpoints to come. Where other rows lie among them they are
left out, and what is read is written again with the first checkpoint: nobody carries rows along that are not his.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flykka.actors.errors import UnreadableStateError
from flykka.actors.machines.state.key_groups import covers
from flykka.actors.machines.state.segments import Written
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    KeyGroupRange,
    OperatorSubtaskState,
    SharedStateHandle,
    StateSchema,
)
from flykka.messages.state.operator_state import ClosedTo, EventTimeBounds
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import OperatorId

Handle = SharedStateHandle | ExclusiveStateHandle


@dataclass(slots=True, kw_only=True)
class StatePart:
    """Rows of one state, for results later than `closed_to_ms` (None: for all).

    Each handle is read for some key groups, or (None) as a whole. `written` is where all of these rows lie, and no
    others do; None where others do, or the rows are `written_as` another schema: they are to be written again.
    """

    closed_to_ms: int | None
    written_as: StateSchema | None = None
    handles: list[tuple[Handle, KeyGroupRange | None]] = field(default_factory=list)
    written: Written | None = None

    @property
    def own_ids(self) -> frozenset[str]:
        """The ids of the handles, where all rows behind them are the subtask's own, as they are to be."""
        return frozenset() if self.written is None else frozenset(each.state_id for each in self.written.handles)

    def without(self, handles: Sequence[SharedStateHandle]) -> StatePart:
        """The part without the rows behind some handles, all of which are its own."""
        assert self.written is not None, "others' rows are left out when they are read"
        left = tuple(handle for handle in self.written.handles if handle not in handles)
        return replace(
            self,
            handles=[(handle, None) for handle in left],
            written=Written(handles=left, checkpoint_id=None) if left else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredKeyedState:
    """Restored state of a subtask: the parts of each state by its name; results up to `emitted_to_ms` were emitted."""

    emitted_to_ms: int | None = None
    parts: Mapping[str, tuple[StatePart, ...]] = field(default_factory=dict)


def restored_keyed_state(states: Iterable[OperatorSubtaskState]) -> RestoredKeyedState:
    """Look through the pieces of an operator's keyed state; nothing is read yet.

    Raises:
        UnreadableStateError: what is noted of a piece cannot be decoded.
    """
    bounds: list[int | None] = []
    parts: dict[tuple[str, int | None, bool, StateSchema | None], StatePart] = {}
    for state in states:
        if state.key_groups is None:
            continue
        noted = _noted(state)
        bounds.append(noted.emitted_to_ms)
        closed = {each.state_id: each.closed_to_ms for each in noted.closed}
        # A savepoint's handles are exclusive: what is read of it is written again, so that it may be deleted.
        handles: tuple[Handle, ...] = (*state.shared, *state.exclusive)
        for handle in handles:
            closed_to = closed.get(_state_id(handle), noted.emitted_to_ms)
            is_own = (
                isinstance(handle, SharedStateHandle) and state.written_as is None and _is_own(handle, state.key_groups)
            )
            part = parts.setdefault(
                (handle.state_name, closed_to, is_own, state.written_as),
                StatePart(closed_to_ms=closed_to, written_as=state.written_as),
            )
            part.handles.append((handle, None if is_own else state.key_groups))
    by_name: dict[str, list[StatePart]] = {}
    for (name, _, is_own, _), part in parts.items():
        if is_own:
            own = tuple(handle for handle, _ in part.handles if isinstance(handle, SharedStateHandle))
            part.written = Written(handles=own, checkpoint_id=None)
        by_name.setdefault(name, []).append(part)
    emitted = None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)
    return RestoredKeyedState(emitted_to_ms=emitted, parts={name: tuple(some) for name, some in by_name.items()})


def keyed_state(
    operator_id: OperatorId,
    key_groups: KeyGroupRange,
    written: Mapping[Written, int | None],
    *,
    emitted_to_ms: int | None = None,
    in_savepoint: bool = False,
) -> OperatorSubtaskState:
    """The keyed state of a subtask, whose rows lie where `written` says, each for results later than its bound."""
    closed = tuple(
        ClosedTo(state_id=handle.state_id, closed_to_ms=closed_to)
        for part, closed_to in written.items()
        for handle in part.handles
        if closed_to is not None and closed_to != emitted_to_ms
    )
    noted = EventTimeBounds(emitted_to_ms=emitted_to_ms, closed=closed)
    handles = tuple({handle.state_id: handle for part in written for handle in part.handles}.values())
    exclusive = (
        ExclusiveStateHandle(path=each.path, size_bytes=each.size_bytes, state_name=each.state_name) for each in handles
    )
    return OperatorSubtaskState(
        operator_id=operator_id,
        shared=() if in_savepoint else handles,
        exclusive=tuple(exclusive) if in_savepoint else (),
        key_groups=key_groups,
        keyed_state=encode(noted) if emitted_to_ms is not None or closed else b"",
    )


def _state_id(handle: Handle) -> str:
    return handle.state_id if isinstance(handle, SharedStateHandle) else handle.path.rsplit("/", 1)[-1]


def _is_own(handle: SharedStateHandle, wanted: KeyGroupRange) -> bool:
    return handle.key_groups is not None and covers(wanted, handle.key_groups)


def _noted(state: OperatorSubtaskState) -> EventTimeBounds:
    if not state.keyed_state:
        return EventTimeBounds()
    try:
        noted = decode(state.keyed_state)
    except DecodeError as damaged:
        raise UnreadableStateError(
            f"what the checkpoint notes of the keyed state of operator {state.operator_id} cannot be read: {damaged}"
        ) from damaged
    if not isinstance(noted, EventTimeBounds):
        raise UnreadableStateError(
            f"the checkpoint notes a {type(noted).__name__} of the keyed state of operator {state.operator_id}"
        )
    return noted
