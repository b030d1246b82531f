"""DeathWatch: the refs that a cell watches, and its watchers. Every watch ends in one message, or in an unwatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import TerminatedEnvelope
from flykka.runtime.signals import DeathWatchNotification, Terminated, Unwatch, Watch

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.ref import ActorRef


class DeathWatch:
    """The watches of a cell, as watcher and as watched. A killed actor may notify twice; the second notification is
    ignored.
    """

    __slots__ = ("_cell", "_queued", "_watchers", "_watching")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._watching: dict[Ref, Message | None] = {}
        self._queued: dict[Ref, Message | None] = {}
        self._watchers: dict[Ref, None] = {}

    def watch(self, ref: Ref, message: Message | None) -> None:
        """Watch `ref`. Its end arrives as `Terminated` or as `message`. Watching again replaces the message."""
        if ref == self._cell.ref:
            return
        if ref in self._queued:
            self._queued[ref] = message
        elif ref in self._watching:
            self._watching[ref] = message
        else:
            self._watching[ref] = message
            self._living(ref).signal(Watch(watcher=self._cell.ref))

    def unwatch(self, ref: Ref) -> None:
        self._queued.pop(ref, None)
        if ref in self._watching:
            del self._watching[ref]
            self._living(ref).signal(Unwatch(watcher=self._cell.ref))

    def on_notification(self, ref: Ref, cause: int | None) -> None:
        """Queue the notification of the end of `ref` after the messages that `ref` sent before, if `ref` is still
        watched.
        """
        if ref in self._watching:
            message = self._queued[ref] = self._watching.pop(ref)
            ended = Terminated(ref=ref) if message is None else message
            self._cell.mailbox.put(TerminatedEnvelope(ended, ref, cause))

    def accept(self, ref: Ref) -> Message | None:
        if ref not in self._queued:
            return None
        message = self._queued.pop(ref)
        return Terminated(ref=ref) if message is None else message

    def requeue(self, ref: Ref, message: Message) -> None:
        self._queued[ref] = None if isinstance(message, Terminated) else message

    def on_watch(self, watcher: Ref) -> None:
        self._watchers[watcher] = None
        if self._cell.end_reason is not None:
            # A kill on another thread may have notified the watchers already.
            self._notify(watcher)

    def on_unwatch(self, watcher: Ref) -> None:
        self._watchers.pop(watcher, None)

    def announce(self) -> None:
        parent = self._cell.parent
        if parent is not None:
            self._notify(parent.ref)
        for watcher in list(self._watchers):
            if parent is None or watcher != parent.ref:
                self._notify(watcher)

    def _notify(self, watcher: Ref) -> None:
        self._living(watcher).signal(DeathWatchNotification(ref=self._cell.ref))

    def _living(self, ref: Ref) -> ActorRef:
        return self._cell.system.living(ref)
