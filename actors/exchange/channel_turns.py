"""Which channel of a gate is read next: channels with something to read take turns, blocked ones wait.

What overtakes data is read first, in blocked channels too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from flykka.actors.exchange.input_channel import InputChannel


class ChannelTurns:
    """The line of the channels, by number."""

    __slots__ = ("_blocked", "_priority_turns", "_turns")

    def __init__(self) -> None:
        # Ordered sets: a channel is in a line once, and a blocked one leaves it.
        self._turns: OrderedDict[int, None] = OrderedDict()
        self._priority_turns: OrderedDict[int, None] = OrderedDict()
        self._blocked: set[int] = set()

    @property
    def has_next(self) -> bool:
        """A channel can be read."""
        return bool(self._turns or self._priority_turns)

    @property
    def has_priority(self) -> bool:
        """A channel has something that overtakes data."""
        return bool(self._priority_turns)

    def next(self) -> int:
        """Whose turn it is; `line_up` afterwards, where it has more."""
        number, _ = (self._priority_turns or self._turns).popitem(last=False)
        return number

    def line_up(self, channel: InputChannel) -> None:
        """Put the channel behind the others, if it can be read; one that is in the line keeps its place."""
        if channel.priority:
            self._priority_turns.setdefault(channel.channel)
        if not channel.queue:
            self._turns.pop(channel.channel, None)
        elif channel.channel not in self._blocked:
            self._turns.setdefault(channel.channel)

    def block(self, channel: InputChannel) -> None:
        """Do not read from the channel until `unblock_all`."""
        self._blocked.add(channel.channel)
        self._turns.pop(channel.channel, None)

    def unblock_all(self, channel_of: Callable[[int], InputChannel]) -> None:
        """Read from every channel again; those that were blocked take the last turns, by number."""
        blocked, self._blocked = sorted(self._blocked), set()
        for number in blocked:
            self.line_up(channel_of(number))

    def check(self, channels: Iterable[InputChannel]) -> None:
        """Assert that the lines agree with the queues."""
        for channel in channels:
            is_blocked = channel.channel in self._blocked
            assert (channel.channel in self._turns) == (bool(channel.queue) and not is_blocked)
            assert (channel.channel in self._priority_turns) == bool(channel.priority)
