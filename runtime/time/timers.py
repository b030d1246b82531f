"""The keyed timers of an actor (Akka's TimerScheduler)."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto
from typing import TYPE_CHECKING, assert_never

from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms
from flykka.runtime.mailbox.envelope import TimerEnvelope

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.clock import Alarm


class Repeats(Enum):
    """The repetition of a timer: none, or the event at which the next period starts."""

    NEVER = auto()
    FROM_THE_HANDLING = auto()
    FROM_THE_FIRING = auto()


class Timer:
    """A started timer. A later start with the same key creates another Timer."""

    __slots__ = ("alarm", "cause", "delay_ms", "key", "message", "repeats")

    def __init__(self, key: Hashable, message: Message, delay_ms: int, repeats: Repeats, cause: int | None) -> None:
        self.key = key
        self.message = message
        self.delay_ms = delay_ms
        self.repeats = repeats
        self.cause = cause
        self.alarm: Alarm | None = None


class Timers:
    """The timers of an actor, one per key. All are cancelled when the actor restarts or ends.

    The message of a cancelled timer is never handled, even if it is already in the mailbox.
    """

    __slots__ = ("_active", "_cell")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._active: dict[Hashable, Timer] = {}

    def start_once(self, key: Hashable, delay: Duration, message: Message) -> None:
        """Send the actor `message` after `delay`, such as "5s" or 5000. Replaces the timer with the same key."""
        self._start(key, duration_ms(delay, "delay"), message, None, Repeats.NEVER)

    def start_fixed_delay(
        self, key: Hashable, delay: Duration, message: Message, initial_delay: Duration | None = None
    ) -> None:
        """Send the actor `message` after `initial_delay` (or `delay`), and again `delay` after each time the message is
        handled.

        The delay starts when the message is handled, so that the mailbox of a busy actor never contains the message
        twice.
        """
        delay_ms = duration_ms(delay, "delay")
        first_ms = delay_ms if initial_delay is None else duration_ms(initial_delay, "initial delay")
        self._start(key, first_ms, message, delay_ms, Repeats.FROM_THE_HANDLING)

    def start_fixed_rate(
        self, key: Hashable, interval: Duration, message: Message, initial_delay: Duration | None = None
    ) -> None:
        """Send the actor `message` after `initial_delay` (or `interval`), and again every `interval`.

        The rate does not depend on the handling: the mailbox of a busy actor may contain several of the messages, which
        then arrive in a burst.
        """
        interval_ms = positive_duration_ms(interval, "interval")
        first_ms = interval_ms if initial_delay is None else duration_ms(initial_delay, "initial delay")
        self._start(key, first_ms, message, interval_ms, Repeats.FROM_THE_FIRING)

    def cancel(self, key: Hashable) -> None:
        cell = self._cell
        timer = self._active.pop(key, None)
        if timer is None:
            return
        _disarm(timer)
        if cell.effects is not None:
            cell.effects.append(("cancel_timer", str(key)))

    def is_active(self, key: Hashable) -> bool:
        return key in self._active

    def active(self) -> list[Timer]:
        return list(self._active.values())

    def cancel_all(self) -> None:
        # A killed actor's turn may still start timers on another thread; `_arm` checks that the cell has ended.
        timers, self._active = self._active, {}
        for timer in list(timers.values()):
            _disarm(timer)

    def accept(self, timer: Timer) -> bool:
        """Return True if a fired timer's message should still be handled. A repeating timer starts its next delay."""
        if self._active.get(timer.key) is not timer:
            return False
        match timer.repeats:
            case Repeats.NEVER:
                del self._active[timer.key]
            case Repeats.FROM_THE_HANDLING:
                self._arm(timer, self._cell.now() + timer.delay_ms)
            case Repeats.FROM_THE_FIRING:
                pass  # The timer was armed again when it fired.
            case _:
                assert_never(timer.repeats)
        return True

    def _start(self, key: Hashable, first_ms: int, message: Message, period_ms: int | None, repeats: Repeats) -> None:
        cell = self._cell
        if cell.end_reason is not None:
            return
        if cell.system.serialize_messages:
            message = cell.system.wire(message)
        replaced = self._active.get(key)
        if replaced is not None:
            _disarm(replaced)
        timer = Timer(key, message, first_ms if period_ms is None else period_ms, repeats, cell.sequence)
        self._active[key] = timer
        if cell.effects is not None:
            fixed_rate = repeats is Repeats.FROM_THE_FIRING
            cell.effects.append(("start_timer", str(key), first_ms, message, period_ms, fixed_rate))
        self._arm(timer, cell.now() + first_ms)

    def _arm(self, timer: Timer, due_ms: int) -> None:
        timer.alarm = self._cell.system.clock.schedule(due_ms, lambda: self._fire(timer, due_ms))
        if self._cell.end_reason is not None:
            _disarm(timer)

    def _fire(self, timer: Timer, due_ms: int) -> None:
        """Queue the message at `due_ms`. Does not run in a turn."""
        self._cell.mailbox.put(TimerEnvelope(timer))
        if timer.repeats is Repeats.FROM_THE_FIRING:
            self._arm(timer, due_ms + timer.delay_ms)
            # A concurrent cancel may have disarmed the former alarm.
            if self._active.get(timer.key) is not timer:
                _disarm(timer)


def _disarm(timer: Timer) -> None:
    if timer.alarm is not None:
        timer.alarm.cancel()
