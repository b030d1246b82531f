"""Operator state: named lists, and their redistribution when the parallelism has changed.

Follows Flink's RoundRobinOperatorStateRepartitioner. At an unchanged parallelism lists stay at their subtasks, except
union state, which every subtask gets in full, and broadcast state that some subtasks lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from flykka.actors.errors import UnreadableStateError
from flykka.messages.state.handles import OperatorListState, OperatorStateMode, OperatorSubtaskState
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.message import Value

Element = TypeVar("Element", bound=Value)

Lists = Sequence[OperatorListState]
"""The list states restored by one subtask. Lists with the same name were written by different subtasks."""


def list_state(
    name: str, elements: Iterable[Value], mode: OperatorStateMode = OperatorStateMode.SPLIT_DISTRIBUTE
) -> OperatorListState:
    return OperatorListState(name=name, elements=tuple(encode(element) for element in elements), mode=mode)


def elements_of(states: Iterable[OperatorSubtaskState], name: str, kind: type[Element]) -> list[Element]:
    """Return the values of all lists of this name.

    Raises:
        UnreadableStateError: an element is damaged, of an unknown version, or not of this type.
    """
    return [
        _element(element, f"list {name!r} of operator {state.operator_id}", kind)
        for state in states
        for each in state.operator_state
        if each.name == name
        for element in each.elements
    ]


def _element(data: bytes, of: str, kind: type[Element]) -> Element:
    try:
        element = decode(data)
    except DecodeError as damaged:
        raise UnreadableStateError(f"the checkpoint's {of} cannot be read: {damaged}") from damaged
    if not isinstance(element, kind):
        raise UnreadableStateError(
            f"the checkpoint's {of} contains a {type(element).__name__} instead of a {kind.__name__}"
        )
    return element


def repartition(previous: Sequence[Lists], parallelism: int) -> list[list[OperatorListState]]:
    assert parallelism > 0, f"parallelism {parallelism}"
    grouped = _ByMode.of(previous)
    if len(previous) == parallelism:
        return _unchanged(previous, grouped)
    result: list[list[OperatorListState]] = [[] for _ in range(parallelism)]
    _split(grouped.split, result)
    _union(grouped.union, result)
    for lists in grouped.broadcast.values():
        for subtask, received in enumerate(result):
            received.append(lists[subtask % len(lists)])
    return result


@dataclass(frozen=True, slots=True)
class _ByMode:
    split: dict[str, list[OperatorListState]] = field(default_factory=dict)
    union: dict[str, list[OperatorListState]] = field(default_factory=dict)
    broadcast: dict[str, list[OperatorListState]] = field(default_factory=dict)

    @classmethod
    def of(cls, previous: Sequence[Lists]) -> _ByMode:
        grouped = cls()
        for lists in previous:
            for each in lists:
                grouped._named(each.mode).setdefault(each.name, []).append(each)
        return grouped

    def _named(self, mode: OperatorStateMode) -> dict[str, list[OperatorListState]]:
        match mode:
            case OperatorStateMode.SPLIT_DISTRIBUTE:
                return self.split
            case OperatorStateMode.UNION:
                return self.union
            case OperatorStateMode.BROADCAST:
                return self.broadcast


def _unchanged(previous: Sequence[Lists], grouped: _ByMode) -> list[list[OperatorListState]]:
    result = [[each for each in lists if each.mode is not OperatorStateMode.UNION] for lists in previous]
    _union(grouped.union, result)
    # A subtask that had finished has no state, but the broadcast state is the same at all other subtasks.
    for name, lists in grouped.broadcast.items():
        for subtask, received in enumerate(result):
            if all(each.name != name for each in received):
                received.append(lists[subtask % len(lists)])
    return result


def _split(lists_by_name: dict[str, list[OperatorListState]], result: list[list[OperatorListState]]) -> None:
    """Distribute the elements of each list evenly. The remainders of the lists go to the subtasks in turn."""
    parallelism, start = len(result), 0
    for lists in lists_by_name.values():
        share, more = divmod(sum(len(each.elements) for each in lists), parallelism)
        pieces = _Pieces(lists)
        for turn in range(parallelism):
            result[(start + turn) % parallelism] += pieces.take(share + (turn < more))
        start = (start + more) % parallelism


class _Pieces:
    """The elements of several lists in order, which are removed in runs. Each run keeps the attributes of its list."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._list = 0
        self._offset = 0

    def take(self, count: int) -> Iterator[OperatorListState]:
        while count > 0:
            current = self._lists[self._list]
            piece = current.elements[self._offset : self._offset + count]
            self._offset += len(piece)
            if self._offset == len(current.elements):
                self._list, self._offset = self._list + 1, 0
            count -= len(piece)
            if piece:
                yield replace(current, elements=piece)


def _union(lists_by_name: dict[str, list[OperatorListState]], result: list[list[OperatorListState]]) -> None:
    everything = [each for lists in lists_by_name.values() for each in lists]
    for received in result:
        received += everything


class Committable(Protocol):
    """Output that is published when checkpoint `checkpoint_id`, or a later one, is complete."""

    @property
    def checkpoint_id(self) -> int: ...


Piece = TypeVar("Piece", bound=Committable)


class Committables(Generic[Piece]):
    """The `pending` output, which every snapshot contains: after an abort it is committed with the next checkpoint."""

    def __init__(self) -> None:
        self.pending: tuple[Piece, ...] = ()

    def due(self, checkpoint_id: int) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pending if piece.checkpoint_id <= checkpoint_id)

    def on_committed(self, checkpoint_id: int) -> None:
        self.pending = tuple(piece for piece in self.pending if piece.checkpoint_id > checkpoint_id)
