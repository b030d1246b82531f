"""Parts of a cell that few actors need: resources, random numbers, changing behaviours, a stash.

Each part is created on first use, by `LazyPart` or by the context.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import StashError, StashOverflowError
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, TellEntry

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

T = TypeVar("T")

logger = logging.getLogger("flykka.runtime")


class LazyPart(Generic[T]):
    """A descriptor that creates its part on first access, and stores it in the slot `_<name>`, which is None until
    then.

    If a hundred thousand cells had all of their parts, Python's garbage collector would dominate the running time.
    """

    def __init__(self, make: Callable[[Cell], T]) -> None:
        self._make = make
        self._slot = ""

    def __set_name__(self, owner: type[Cell], name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, cell: Cell, owner: type[Cell]) -> T:
        part: T | None = getattr(cell, self._slot)
        if part is None:
            part = self._make(cell)
            setattr(cell, self._slot, part)
        return part


class SupportsClose(Protocol):
    def close(self) -> object: ...


class Resources:
    """The external resources of an actor, closed in reverse order when it ends.

    Each resource is closed exactly once, by the thread that pops it.
    """

    __slots__ = ("_cell", "_resources")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._resources: list[SupportsClose] = []

    def own(self, resource: SupportsClose) -> None:
        self._resources.append(resource)
        if self._cell.end_reason is not None:
            self.close_all()

    def close_all(self) -> None:
        """Close every resource, even if some fail to close."""
        while self._resources:
            try:
                resource = self._resources.pop()
            except IndexError:
                return  # A kill on another thread has popped the resource.
            try:
                resource.close()
            except BaseException:
                logger.exception("%s: closing %r failed", self._cell.ref, resource)


class SeededRandom:
    """The random numbers and ids of an actor. A restart continues the sequence; another incarnation does not."""

    __slots__ = ("_identity", "_made_ids", "random")

    def __init__(self, seed: int, ref: Ref) -> None:
        self._identity = f"{seed}:{ref}"
        self._made_ids = 0
        # Random hashes a text seed in the same way in every process.
        self.random = random.Random(self._identity)

    @classmethod
    def for_cell(cls, cell: Cell) -> SeededRandom:
        """Create the numbers of a cell, on first use: a generator takes 2.5 kB."""
        return cls(cell.system.seed, cell.ref)

    def new_id(self, prefix: str) -> str:
        self._made_ids += 1
        digest = hashlib.blake2s(self._identity.encode(), digest_size=4).hexdigest()
        return f"{prefix}-{digest}-{self._made_ids}"


Behaviour = Callable[["Message"], object]
"""A bound method or function that handles one message, as `Actor.handle_message` does."""


def refuse_behaviour(behaviour: Behaviour, cell: Cell) -> None:
    if not callable(behaviour):
        raise TypeError(f"{cell.ref} cannot become {behaviour!r}: a behaviour is a function of the message")
    if iscoroutinefunction(behaviour) and not cell.on_loop:
        raise TypeError(
            f"{cell.ref} cannot become {behaviour.__qualname__}, a coroutine function: "
            "only Props.with_dispatcher('loop') can run it"
        )


class Behaviours:
    """A stack of an instance's behaviours, the current one on top (as in Akka). A restart drops the stack."""

    __slots__ = ("_cell", "_first", "_stack")

    def __init__(self, cell: Cell, first: Behaviour) -> None:
        self._cell = cell
        self._first = first
        self._stack = [first]

    @property
    def top(self) -> Behaviour:
        return self._stack[-1]

    def become(self, behaviour: Behaviour, discard_old: bool) -> None:
        if discard_old:
            self._stack.pop()
        self._stack.append(behaviour)
        self._cell.set_behaviour(behaviour)

    def unbecome(self) -> None:
        self._stack.pop()
        if not self._stack:
            self._stack.append(self._first)
        self._cell.set_behaviour(self.top)


class Stash:
    """The stashed messages of an actor, in order. A restart unstashes them; the actor's end makes them dead letters.

    The thread that pops an entry handles it, so that each entry is handled once, even during a concurrent kill.
    """

    __slots__ = ("_cell", "_entries")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._entries: deque[TellEntry | Envelope] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def stash(self, entry: TellEntry | Envelope | None) -> None:
        """Append `entry`, which is being handled.

        Raises:
            StashError: the entry is no message, or is already stashed.
            StashOverflowError: the stash is full.
        """
        cell, entries = self._cell, self._entries
        if entry is None or isinstance(entry, SignalEnvelope):
            raise StashError(f"{cell.ref} can stash only while it handles a message")
        if not isinstance(entry, Envelope | tuple):
            # The same message may be sent twice from outside of actors. Wrapped in tuples, the two entries are
            # distinct.
            entry = cell.current = (entry, None, None)
        if entries and entries[-1] is entry:
            raise StashError(f"{cell.ref} stashes the same {_name(entry)} message twice")
        capacity = cell.props.stash_capacity
        if capacity is not None and len(entries) >= capacity:
            raise StashOverflowError(
                f"{cell.ref} cannot stash {_name(entry)}: {capacity} messages are stashed already, "
                "which is the limit set by Props.with_stash_capacity"
            )
        if not cell.may_act("stash"):
            return  # The actor was killed during its turn, and its message ends with it.
        entries.append(entry.stashed(cell) if isinstance(entry, Envelope) else entry)
        if cell.end_reason is not None:
            self.reject_all()

    def unstash_all(self) -> None:
        self._cell.mailbox.prepend(list(self._popped()))

    def reject_all(self) -> None:
        for entry in self._popped():
            self._cell.reject(Envelope.wrap(entry))

    def _popped(self) -> Iterator[TellEntry | Envelope]:
        while self._entries:
            try:
                yield self._entries.popleft()
            except IndexError:
                return  # A kill on another thread has popped the entry.


def _name(entry: TellEntry | Envelope) -> str:
    return type(Envelope.wrap(entry).message).__name__
