"""The mailbox of a replayed cell: what is told lies there until the recorded turn comes that takes it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, Told, TurnKind
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

Entry = Told | Envelope


class ReplayMailbox(Mailbox):
    """Keeps what was told in turns, by its cause; what comes from outside of turns is in the trace, and is not kept.

    So what a turn takes is the living message that a replayed turn has told, and not a copy of the record's: its refs
    live, and its promise waits. `go_live` makes an ordinary mailbox of it.
    """

    __slots__ = ("_is_live", "_several", "_signals", "_told")

    def __init__(self, owner: Cell) -> None:
        super().__init__(owner)
        self._is_live = False
        self._signals: defaultdict[int | None, list[Entry]] = defaultdict(list)
        self._told: defaultdict[int | None, list[Entry]] = defaultdict(list)
        self._several: set[int | None] = set()
        """The turns that have told more than one message, until all of them are taken."""

    def put(self, entry: Entry) -> None:
        """Keep a message that a turn has told."""
        if self._is_live or self.closed:
            super().put(entry)
        elif RUNNING.cell is not None:
            cause = _cause(entry)
            waiting = self._told[cause]
            waiting.append(entry)
            if len(waiting) > 1:
                self._several.add(cause)

    def put_signal(self, envelope: SignalEnvelope) -> None:
        """Keep a signal that a turn has sent."""
        if self._is_live or self.closed:
            super().put_signal(envelope)
        elif RUNNING.cell is not None:
            self._signals[envelope.cause].append(envelope)

    def prepend(self, entries: Sequence[Entry]) -> None:
        """Keep messages once more that were put aside."""
        if self._is_live or self.closed:
            super().prepend(entries)
            return
        for entry in reversed(entries):
            cause = _cause(entry)
            self._told[cause].insert(0, entry)
            self._several.add(cause)

    def release(self) -> None:
        """A run is over; the next one is forced as well."""
        if self._is_live:
            super().release()

    def wake(self) -> None:
        """Wait for the recorded turn."""
        if self._is_live:
            super().wake()

    def empty(self) -> bool:
        return not self._told and super().empty()

    def close(self) -> None:
        """Refuse everything from now on, and hand back what still waits."""
        self._pour()
        super().close()

    def take(self, turn: Turn, like: Callable[[object, object], bool] = same) -> Entry | None:
        """Take the entry that was recorded as this turn, or is `like` it; None where no replayed turn has told one."""
        is_signal, sender = turn.kind == "signal", turn.sender
        lane = self._signals if is_signal else self._told
        waiting = lane.get(turn.cause)
        if waiting is None:
            return None
        # What a turn told somebody but once, that one has got from it: the message need not be looked at. Of several,
        # one may have come twice or never, as messages do where faults are injected.
        is_sure = not (is_signal or turn.cause in self._several or sender is None or sender == turn.recipient)
        if is_sure and type(waiting[0]) is tuple and waiting[0][1] == sender and len(waiting) == 1:
            return lane.pop(turn.cause)[0]  # As nearly always.
        for place, entry in enumerate(waiting):
            if _sender(entry) != sender or _kind(entry) != turn.kind:
                continue
            if is_sure or like(turn.message, _message(entry)):
                del waiting[place]
                if not waiting:
                    del lane[turn.cause]
                    if not is_signal:
                        self._several.discard(turn.cause)
                return entry
        return None

    def holds(self, turn: Turn) -> bool:
        """Tell whether a replayed turn has told what was recorded as this, which is not taken yet."""
        lane = self._signals if turn.kind == "signal" else self._told
        waiting = lane.get(turn.cause, ())
        return any(_sender(entry) == turn.sender and same(turn.message, _message(entry)) for entry in waiting)

    def force(self, entry: Entry) -> None:
        """Have the next run take this, and nothing else."""
        if isinstance(entry, SignalEnvelope):
            self.control.append(entry)
        else:
            self.messages.append(entry)

    def withdraw(self) -> None:
        """Forget what was forced and not taken."""
        self.control.clear()
        self.messages = deque()

    @property
    def waiting(self) -> list[Entry]:
        """The messages that were told and not handled yet, in the order of the turns that told them."""
        return list(_in_order(self._told))

    def go_live(self, queue: MessageQueue | None = None) -> None:
        """Be an ordinary mailbox from now on, with what waits in it; the cell is not scheduled by that."""
        self._is_live = True
        if queue is not None:
            self.messages = queue
        self._pour()

    def _pour(self) -> None:
        for signal in _in_order(self._signals):
            assert isinstance(signal, SignalEnvelope)
            self.control.append(signal)
        for entry in _in_order(self._told):
            self.messages.append(entry)
        self._signals.clear()
        self._told.clear()


class DeafMailbox(ReplayMailbox):
    """The mailbox of an actor that is not replayed: its messages, and what it said to them, are in the trace."""

    __slots__ = ()

    def put(self, entry: Entry) -> None:
        if self._is_live:
            super().put(entry)

    def put_signal(self, envelope: SignalEnvelope) -> None:
        """Not heard; but who watches it is to be told of its end in a fork as well."""
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
