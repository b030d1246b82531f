"""Snapshots of the actors of a system, as values: read from the cells, never asked of an actor.

So there is an answer also where everything is stuck. Values that are read while others write are each right, and of
about the same moment: more exact ones would cost every message something.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.system import ActorSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSnapshot:
    """Snapshot of an actor.

    Args:
        ref: path and incarnation.
        actor: the class of its instance; before and between instances, its Props.
        state: the state in its life: `running`, `failed`, `restarting`, ...
        handles: the class of the message or signal that it is handling.
        mailbox_size: number of messages that wait, and `stashed` of those that it has stashed.
        turns: number of messages and signals handled; counted after each run of turns.
        turns_per_second: on average since the snapshot before, or since the system started.
        restarts: number of times that its instance was replaced.
        last_failure: its last failure, if any, at `last_failure_ms`.
        dispatcher: the name in its Props.
        children: in the order of their spawning.
    """

    ref: Ref
    actor: str
    state: str
    handles: str | None
    mailbox_size: int
    stashed: int
    turns: int
    turns_per_second: float
    restarts: int
    last_failure: SerializedThrowable | None
    last_failure_ms: int | None
    dispatcher: str
    children: tuple[ActorSnapshot, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return self.ref.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSnapshot:
    """Snapshot of a system; `actors` are those under `/user`, with all below them."""

    name: str
    now_ms: int
    actors: tuple[ActorSnapshot, ...]

    def __iter__(self) -> Iterator[ActorSnapshot]:
        waiting = list(reversed(self.actors))
        while waiting:
            actor = waiting.pop()
            yield actor
            waiting.extend(reversed(actor.children))

    def find(self, path: str) -> ActorSnapshot | None:
        return next((actor for actor in self if actor.ref.path == path), None)


class Inspection:
    """Takes snapshots of a system, from any thread; keeps the turn counts of the last one for the rates."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._looked_ms = system.clock.now_ms()
        self._turns: dict[Ref, int] = {}

    def take_snapshot(self) -> SystemSnapshot:
        with self._lock:
            now_ms = self._system.clock.now_ms()
            seconds = (now_ms - self._looked_ms) / 1000
            children: dict[Cell | None, list[ActorSnapshot]] = {}
            turns: dict[Ref, int] = {}
            # The tree has children after their parents: from its end, the children of each are known.
            for cell in reversed(self._system.cells.living()):
                below = children.pop(cell, [])
                below.reverse()
                turns[cell.ref] = cell.turns
                taken = cell.turns - self._turns.get(cell.ref, 0)
                rate = taken / seconds if seconds > 0 else 0.0
                children.setdefault(cell.parent, []).append(_snapshot(cell, rate, tuple(below)))
            self._looked_ms, self._turns = now_ms, turns
        root = children.get(None, [])
        users = [guardian for each in root for guardian in each.children]
        actors = tuple(actor for guardian in users for actor in guardian.children)
        return SystemSnapshot(name=self._system.name, now_ms=now_ms, actors=actors)


def _snapshot(cell: Cell, rate: float, children: tuple[ActorSnapshot, ...]) -> ActorSnapshot:
    instance, stash, failed = cell.instance, cell.stash, cell.faults.last_failure
    return ActorSnapshot(
        ref=cell.ref,
        actor=repr(cell.props) if instance is None else type(instance).__name__,
        state=cell.life.name.lower(),
        handles=cell.handles,
        mailbox_size=len(cell.mailbox.messages),
        stashed=0 if stash is None else len(stash),
        turns=cell.turns,
        turns_per_second=rate,
        restarts=cell.faults.restarted,
        last_failure=None if failed is None else failed[1],
        last_failure_ms=None if failed is None else failed[0],
        dispatcher=cell.props.dispatcher,
        children=children,
    )
