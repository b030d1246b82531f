"""Keyed state in a checkpoint: the rows that a subtask reads, and their metadata.

A state may come in pieces, one from each subtask that had some of the subtask's key groups. If all rows of a piece
belong to the subtask, later checkpoints refer to its files. Otherwise the rows of other subtasks are filtered out, and
the remaining rows are written again with the first checkpoint, so that a subtask does not retain rows of others.
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

    Each handle is read for some key groups, or (`None`) completely. `written` has the handles if they contain only
    these rows. It is `None` if they contain other rows, or the rows were `written_as` another schema; the rows are then
    written again.
    """

    bounds: ResultBounds = _NO_BOUNDS
    written_as: StateSchema | None = None
    handles: list[tuple[Handle, KeyGroupRange | None]] = field(default_factory=list)
    written: Written | None = None

    @property
    def own_ids(self) -> frozenset[str]:
        return frozenset() if self.written is None else frozenset(each.state_id for each in self.written.handles)

    def without(self, handles: Sequence[SharedStateHandle]) -> StatePart:
        """Return the part without the rows of some handles. The part must contain only rows of the subtask."""
        assert self.written is not None, "the state is not written, so its handles cannot be replaced"
        remaining = tuple(handle for handle in self.written.handles if handle not in handles)
        return replace(
            self,
            handles=[(handle, None) for handle in remaining],
            written=Written(handles=remaining, checkpoint_id=None) if remaining else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredKeyedState:
    """Restored state of a subtask: the parts of each state by its name, and the bounds for rows of all states."""

    bounds: ResultBounds = _NO_BOUNDS
    parts: Mapping[str, tuple[StatePart, ...]] = field(default_factory=dict)

    def emitted_once(self) -> RestoredKeyedState:
        """Return this state for results that are emitted only once, so that rows of emitted results are not needed."""
        return RestoredKeyedState(
            bounds=_emitted_once(self.bounds),
            parts={
                name: tuple(replace(part, bounds=_emitted_once(part.bounds)) for part in parts)
                for name, parts in self.parts.items()
            },
        )


def restored_keyed_state(states: Iterable[OperatorSubtaskState]) -> RestoredKeyedState:
    """Collect the pieces of an operator's keyed state, without reading them.

    If event time begins again, rows of any time are accepted. Restored results are still not emitted again, because
    each part has its own bounds.

    Raises:
        UnreadableStateError: the metadata of a piece cannot be decoded.
    """
    states = tuple(states)
    bounds: list[ResultBounds] = []
    parts: dict[tuple[str, ResultBounds, bool, StateSchema | None], StatePart] = {}
    for state in states:
        if state.key_groups is None:
            continue
        metadata = _stored_bounds(state)
        of_piece = ResultBounds(closed_to_ms=_closed_to(metadata), emitted_to_ms=metadata.emitted_to_ms)
        bounds.append(of_piece)
        closed = {each.state_id: each.closed_to_ms for each in metadata.closed}
        emitted = {each.state_id: each.emitted_to_ms for each in metadata.emitted}
        # A savepoint's handles are exclusive: its rows are written again, so that the savepoint may be deleted.
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
    """Return the keyed state of a subtask: the rows `written`, each with its bounds, within `bounds` for all rows."""
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
    metadata = EventTimeBounds(
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
        keyed_state=encode(metadata) if metadata != EventTimeBounds() else b"",
    )


def _emitted_once(bounds: ResultBounds) -> ResultBounds:
    return replace(bounds, closed_to_ms=latest(bounds.closed_to_ms, bounds.emitted_to_ms))


def _earliest(bounds: Sequence[int | None]) -> int | None:
    return None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)


def _closed_to(metadata: EventTimeBounds) -> int | None:
    return metadata.emitted_to_ms if metadata.closed_to_ms is None else metadata.closed_to_ms


def _state_id(handle: Handle) -> str:
    return handle.state_id if isinstance(handle, SharedStateHandle) else handle.path.rsplit("/", 1)[-1]


def _is_own(handle: SharedStateHandle, own_groups: KeyGroupRange) -> bool:
    return handle.key_groups is not None and covers(own_groups, handle.key_groups)


def _stored_bounds(state: OperatorSubtaskState) -> EventTimeBounds:
    if not state.keyed_state:
        return EventTimeBounds()
    try:
        metadata = decode(state.keyed_state)
    except DecodeError as damaged:
        raise UnreadableStateError(
            f"the metadata of the keyed state of operator {state.operator_id} cannot be read: {damaged}"
        ) from damaged
    if not isinstance(metadata, EventTimeBounds):
        raise UnreadableStateError(
            f"the checkpoint has a {type(metadata).__name__} as metadata of keyed state of operator {state.operator_id}"
        )
    return metadata
