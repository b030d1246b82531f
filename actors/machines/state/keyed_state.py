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
from flykka.actors.machines.state.segments import ResultBounds, Written, latest
from flykka.actors.machines.state.watermarks import begins_again
from flykka.messages.state.handles import (
    ClosedTo,
    EmittedTo,
    EventTimeBounds,
    ExclusiveStateHandle,
    KeyGroupRange,
    OperatorSubtaskState,
    SharedStateHandle,
    StateSchema,
)
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import OperatorId

Handle = SharedStateHandle | ExclusiveStateHandle
_NO_BOUNDS = ResultBounds()


@dataclass(slots=True, kw_only=True)
class StatePart:
    """Rows of one state, for results within `bounds`.

    Each handle is read for some key groups, or (None) as a whole. `written` is where all of these rows lie, and no
    others do; None where others do, or the rows are `written_as` another schema: they are to be written again.
    """

    bounds: ResultBounds = _NO_BOUNDS
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
    """Restored state of a subtask: the parts of each state by its name, and the bounds of all that is not restored."""

    bounds: ResultBounds = _NO_BOUNDS
    parts: Mapping[str, tuple[StatePart, ...]] = field(default_factory=dict)

    def emitted_once(self) -> RestoredKeyedState:
        """The same for results that are not emitted again: no rows are needed for those that were."""
        return RestoredKeyedState(
            bounds=_emitted_once(self.bounds),
            parts={
                name: tuple(replace(part, bounds=_emitted_once(part.bounds)) for part in parts)
                for name, parts in self.parts.items()
            },
        )


def restored_keyed_state(states: Iterable[OperatorSubtaskState]) -> RestoredKeyedState:
    """Look through the pieces of an operator's keyed state; nothing is read yet.

    If event time begins again, rows of any time are taken. What is restored is not emitted again all the same: each
    part keeps its own bounds.

    Raises:
        UnreadableStateError: what is noted of a piece cannot be decoded.
    """
    states = tuple(states)
    bounds: list[ResultBounds] = []
    parts: dict[tuple[str, ResultBounds, bool, StateSchema | None], StatePart] = {}
    for state in states:
        if state.key_groups is None:
            continue
        noted = _noted(state)
        of_piece = ResultBounds(closed_to_ms=_closed_to(noted), emitted_to_ms=noted.emitted_to_ms)
        bounds.append(of_piece)
        closed = {each.state_id: each.closed_to_ms for each in noted.closed}
        emitted = {each.state_id: each.emitted_to_ms for each in noted.emitted}
        # A savepoint's handles are exclusive: what is read of it is written again, so that it may be deleted.
        handles: tuple[Handle, ...] = (*state.shared, *state.exclusive)
        for handle in handles:
            state_id = _state_id(handle)
            of_handle = ResultBounds(
                closed_to_ms=closed.get(state_id, of_piece.closed_to_ms),
                emitted_to_ms=emitted.get(state_id, of_piece.emitted_to_ms),
            )
            is_own = (
                isinstance(handle, SharedStateHandle) and state.written_as is None and _is_own(handle, state.key_groups)
            )
            part = parts.setdefault(
                (handle.state_name, of_handle, is_own, state.written_as),
                StatePart(bounds=of_handle, written_as=state.written_as),
            )
            part.handles.append((handle, None if is_own else state.key_groups))
    by_name: dict[str, list[StatePart]] = {}
    for (name, _, is_own, _), part in parts.items():
        if is_own:
            own = tuple(handle for handle, _ in part.handles if isinstance(handle, SharedStateHandle))
            part.written = Written(handles=own, checkpoint_id=None)
        by_name.setdefault(name, []).append(part)
    of_all = ResultBounds(
        closed_to_ms=_earliest([each.closed_to_ms for each in bounds]),
        emitted_to_ms=_earliest([each.emitted_to_ms for each in bounds]),
    )
    if begins_again(states):
        of_all = _NO_BOUNDS
    return RestoredKeyedState(bounds=of_all, parts={name: tuple(some) for name, some in by_name.items()})


def keyed_state(
    operator_id: OperatorId,
    key_groups: KeyGroupRange,
    written: Mapping[Written, ResultBounds],
    *,
    bounds: ResultBounds = _NO_BOUNDS,
    in_savepoint: bool = False,
) -> OperatorSubtaskState:
    """The keyed state of a subtask, whose rows lie where `written` says, each with its bounds; `bounds` are of all."""
    closed = tuple(
        ClosedTo(state_id=handle.state_id, closed_to_ms=each.closed_to_ms)
        for part, each in written.items()
        for handle in part.handles
        if each.closed_to_ms is not None and each.closed_to_ms != bounds.closed_to_ms
    )
    emitted = tuple(
        EmittedTo(state_id=handle.state_id, emitted_to_ms=each.emitted_to_ms)
        for part, each in written.items()
        for handle in part.handles
        if each.emitted_to_ms is not None and each.emitted_to_ms != latest(each.closed_to_ms, bounds.emitted_to_ms)
    )
    noted = EventTimeBounds(
        emitted_to_ms=bounds.emitted_to_ms,
        closed=closed,
        closed_to_ms=None if bounds.closed_to_ms == bounds.emitted_to_ms else bounds.closed_to_ms,
        emitted=emitted,
    )
    handles = tuple({handle.state_id: handle for part in written for handle in part.handles}.values())
    exclusive = (
        ExclusiveStateHandle(path=each.path, size_bytes=each.size_bytes, state_name=each.state_name, files=each.files)
        for each in handles
    )
    return OperatorSubtaskState(
        operator_id=operator_id,
        shared=() if in_savepoint else handles,
        exclusive=tuple(exclusive) if in_savepoint else (),
        key_groups=key_groups,
        keyed_state=encode(noted) if noted != EventTimeBounds() else b"",
    )


def _emitted_once(bounds: ResultBounds) -> ResultBounds:
    return replace(bounds, closed_to_ms=latest(bounds.closed_to_ms, bounds.emitted_to_ms))


def _earliest(bounds: Sequence[int | None]) -> int | None:
    return None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)


def _closed_to(noted: EventTimeBounds) -> int | None:
    return noted.emitted_to_ms if noted.closed_to_ms is None else noted.closed_to_ms


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
