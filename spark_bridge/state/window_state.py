"""What a checkpoint holds of windows: which rows of it an attempt reads, and what it says about them.

A state may come in pieces, one for each subtask that had some of the attempt's key groups. Where all rows of a piece
are the attempt's own, its files are referred to by the checkpoints to come. Where other rows lie among them they are
left out, and what is read is written anew with the first checkpoint: nobody carries rows along that are not his.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flykka.actors.errors import UnreadableStateError
from flykka.actors.machines.state.key_groups import covers
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.state.operator_state import ClosedTo, WindowOperatorState
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.stages.window_operator import RestoredRows
from flykka.spark_bridge.state.segments import Written
from flykka.spark_bridge.state.storage import StateReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.state.handles import ExclusiveStateHandle, KeyGroupRange, SharedStateHandle
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.partitioning import KeyGroups


def window_state(
    operator_id: OperatorId,
    key_groups: KeyGroupRange,
    emitted_to_ms: int | None,
    written: Mapping[Written, int | None],
) -> OperatorSubtaskState:
    """The state of a window operator, whose rows lie where `written` says, each for the windows behind its bound."""
    closed = tuple(
        ClosedTo(state_id=handle.state_id, closed_to_ms=closed_to)
        for part, closed_to in written.items()
        for handle in part.handles
        if closed_to is not None and closed_to != emitted_to_ms
    )
    noted = WindowOperatorState(emitted_to_ms=emitted_to_ms, closed=closed)
    return OperatorSubtaskState(
        operator_id=operator_id,
        shared=tuple({handle.state_id: handle for part in written for handle in part.handles}.values()),
        key_groups=key_groups,
        keyed_state=encode(noted) if emitted_to_ms is not None or closed else b"",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWindows:
    """What to begin with: the windows up to `emitted_to_ms` have fired for all rows, more of them for some parts."""

    emitted_to_ms: int | None
    parts: tuple[RestoredRows, ...]


@dataclass(slots=True)
class _Part:
    """Handles of one bound: those that are the attempt's own, and those of which it reads some key groups."""

    own: list[SharedStateHandle] = field(default_factory=list)
    among_others: list[tuple[SharedStateHandle | ExclusiveStateHandle, KeyGroupRange]] = field(default_factory=list)


def restored_windows(
    session: SparkSession, states: Iterable[OperatorSubtaskState], groups: KeyGroups
) -> RestoredWindows:
    """Look through the pieces of a state; nothing is read yet."""
    bounds: list[int | None] = []
    parts: dict[int | None, _Part] = {}
    for state in states:
        if state.key_groups is None:
            continue
        noted = _noted(state)
        bounds.append(noted.emitted_to_ms)
        closed = {each.state_id: each.closed_to_ms for each in noted.closed}
        for handle in state.shared:
            part = parts.setdefault(closed.get(handle.state_id, noted.emitted_to_ms), _Part())
            if handle.key_groups is not None and covers(state.key_groups, handle.key_groups):
                part.own.append(handle)
            else:
                part.among_others.append((handle, state.key_groups))
        for owned in state.exclusive:
            # A savepoint's: what is read of it is written anew, so that it may be deleted.
            closed_to = closed.get(owned.path.rsplit("/", 1)[-1], noted.emitted_to_ms)
            parts.setdefault(closed_to, _Part()).among_others.append((owned, state.key_groups))
    emitted = None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)
    reader = StateReader(session)
    rows = (each for closed_to, part in parts.items() for each in _rows(reader, closed_to, part, groups))
    return RestoredWindows(emitted_to_ms=emitted, parts=tuple(rows))


def _rows(reader: StateReader, closed_to: int | None, part: _Part, groups: KeyGroups) -> Iterable[RestoredRows]:
    if part.own:
        written = Written(handles=tuple(part.own), checkpoint_id=None)
        yield RestoredRows(read=partial(reader.read, part.own), closed_to_ms=closed_to, written=written)
    if part.among_others:
        read = partial(_read_among_others, reader, part.among_others, groups)
        yield RestoredRows(read=read, closed_to_ms=closed_to, written=None)


def _read_among_others(
    reader: StateReader,
    handles: Iterable[tuple[SharedStateHandle | ExclusiveStateHandle, KeyGroupRange]],
    groups: KeyGroups,
) -> DataFrame:
    wanted: dict[KeyGroupRange, list[SharedStateHandle | ExclusiveStateHandle]] = {}
    for handle, key_groups in handles:
        wanted.setdefault(key_groups, []).append(handle)
    return together([groups.within(reader.read(some), key_groups) for key_groups, some in wanted.items()])


def _noted(state: OperatorSubtaskState) -> WindowOperatorState:
    if not state.keyed_state:
        return WindowOperatorState()
    try:
        noted = decode(state.keyed_state)
    except DecodeError as damaged:
        raise UnreadableStateError(
            f"what the checkpoint notes of the windows of operator {state.operator_id} cannot be read: {damaged}"
        ) from damaged
    if not isinstance(noted, WindowOperatorState):
        raise UnreadableStateError(
            f"the checkpoint's keyed state of operator {state.operator_id} is no windows: {type(noted).__name__}"
        )
    return noted
