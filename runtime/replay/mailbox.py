"""The mailbox of a replayed cell: a sent message stays there until the recorded turn that handles it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, TellEntry, TurnKind
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.signals import Unwatch, Watch
from flykka.runtime.trace.diff.value_comparator import same
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.message_queue import MessageQueue
    from flykka.runtime.trace.records import Turn

Entry = TellEntry | Envelope


class ReplayMailbox(Mailbox):
    """Retains messages sent in turns, by their cause. Messages from outside of turns come from the trace and are not
    retained.

    So a turn gets the live message that a replayed turn has sent, not a copy of the recorded message: its refs are
    live, and its promise waits. `go_live` turns this into an ordinary mailbox.
    """

    __slots__ = ("_is_live", "_messages", "_several", "_signals")

    def __init__(self, owner: Cell) -> None:
        super().__init__(owner)
        self._is_live = False
        self._signals: defaultdict[int | None, list[Entry]] = defaultdict(list)
        self._messages: defaultdict[int | None, list[Entry]] = defaultdict(list)
        self._several: set[int | None] = set()
        """The turns that have sent more than one message, until all of these are handled."""

    def put(self, entry: Entry) -> None:
        if self._is_live or self.closed:
            super().put(entry)
        elif RUNNING.cell is not None:
            cause = _cause(entry)
            entries = self._messages[cause]
            entries.append(entry)
            if len(entries) > 1:
                self._several.add(cause)

    def put_signal(self, envelope: SignalEnvelope) -> None:
        if self._is_live or self.closed:
            super().put_signal(envelope)
        elif RUNNING.cell is not None:
            self._signals[envelope.cause].append(envelope)

    def prepend(self, entries: Sequence[Entry]) -> None:
        if self._is_live or self.closed:
            super().prepend(entries)
            return
        for entry in reversed(entries):
            cause = _cause(entry)
            self._messages[cause].insert(0, entry)
            self._several.add(cause)

    def release(self) -> None:
        """Do nothing after a run of a replay, because the next run is forced."""
        if self._is_live:
            super().release()

    def wake(self) -> None:
        """Do nothing in a replay: the cell waits for the recorded turn."""
        if self._is_live:
            super().wake()

    def empty(self) -> bool:
        return not self._messages and super().empty()

    def close(self) -> None:
        self._requeue_all()
        super().close()

    def take(self, turn: Turn, like: Callable[[object, object], bool] = same) -> Entry | None:
        """Return the entry recorded as this turn, or an entry `like` it. None if no replayed turn has sent one."""
        is_signal, sender = turn.kind == "signal", turn.sender
        lane = self._signals if is_signal else self._messages
        entries = lane.get(turn.cause)
        if entries is None:
            return None
        # If a turn sent the recipient a single message, the entry is that message and need not be compared. Of
        # several messages, one may have arrived twice or never, as happens if faults are injected.
        is_sure = not (is_signal or turn.cause in self._several or sender is None or sender == turn.recipient)
        if is_sure and type(entries[0]) is tuple and entries[0][1] == sender and len(entries) == 1:
            return lane.pop(turn.cause)[0]  # The usual case.
        for place, entry in enumerate(entries):
            if _sender(entry) != sender or _kind(entry) != turn.kind:
                continue
            if is_sure or like(turn.message, _message(entry)):
                del entries[place]
                if not entries:
                    del lane[turn.cause]
                    if not is_signal:
                        self._several.discard(turn.cause)
                return entry
        return None

    def holds(self, turn: Turn) -> bool:
        lane = self._signals if turn.kind == "signal" else self._messages
        entries = lane.get(turn.cause, ())
        return any(_sender(entry) == turn.sender and same(turn.message, _message(entry)) for entry in entries)

    def force(self, entry: Entry) -> None:
        if isinstance(entry, SignalEnvelope):
            self.control.append(entry)
        else:
            self.messages.append(entry)

    def withdraw(self) -> None:
        self.control.clear()
        self.messages = deque()

    @property
    def waiting(self) -> list[Entry]:
        """The messages that were sent and not handled yet, in the order of the turns that sent them."""
        return list(_in_order(self._messages))

    def go_live(self, queue: MessageQueue | None = None) -> None:
        """Become an ordinary mailbox, with the waiting entries. This does not schedule the cell."""
        self._is_live = True
        if queue is not None:
            self.messages = queue
        self._requeue_all()

    def _requeue_all(self) -> None:
        for signal in _in_order(self._signals):
            assert isinstance(signal, SignalEnvelope)
            self.control.append(signal)
        for entry in _in_order(self._messages):
            self.messages.append(entry)
        self._signals.clear()
        self._messages.clear()


class ClosedMailbox(ReplayMailbox):
    """The mailbox of an actor that is not replayed. The actor's messages, and its replies to them, are in the trace."""

    __slots__ = ()

    def put(self, entry: Entry) -> None:
        if self._is_live:
            super().put(entry)

    def put_signal(self, envelope: SignalEnvelope) -> None:
        """Accept only watch and unwatch signals: even in a fork, watchers must be notified when the actor ends."""
        if self._is_live or isinstance(envelope.message, Watch | Unwatch):
            super().put_signal(envelope)


def _in_order(lane: dict[int | None, list[Entry]]) -> Iterable[Entry]:
    for cause in sorted(lane, key=lambda each: -1 if each is None else each):
        yield from lane[cause]


def _cause(entry: Entry) -> int | None:
    if isinstance(entry, tuple):
        return entry[2]
    return entry.cause if isinstance(entry, Envelope) else None


def _sender(entry: Entry) -> Ref | None:
    if isinstance(entry, tuple):
        return entry[1]
    return entry.sender if isinstance(entry, Envelope) else None


def _kind(entry: Entry) -> TurnKind:
    return entry.kind if isinstance(entry, Envelope) else "message"


def _message(entry: Entry) -> Message:
    if isinstance(entry, tuple):
        return entry[0]
    return entry.message if isinstance(entry, Envelope) else entry
