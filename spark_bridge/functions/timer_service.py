"""Timers of the current key, with Flink's names."""

from __future__ import annotations

from bisect import bisect_left
from typing import NoReturn

from flykka.spark_bridge.errors import TimerError
from flykka.spark_bridge.functions.current_key import NOTHING, CurrentKey
from flykka.spark_bridge.functions.state_columns import StateColumns


class TimerService:
    """The current times, and the timers of the current key: at most one timer for each time and time domain.

    Times are integer milliseconds since the epoch. An event-time timer fires when the watermark reaches its time, or
    with the next watermark if that time has passed already. A processing-time timer fires when the subtask next reads
    the clock after its time.
    """

    __slots__ = ("_changed", "_current", "_event", "_processing")

    def __init__(self, current: CurrentKey) -> None:
        self._current = current
        self._event: list[list[int] | None] = NOTHING
        self._processing: list[list[int] | None] = NOTHING
        self._changed: set[int] = set()

    def bind(self, columns: StateColumns) -> None:
        """Set the columns that contain the timers. Used by runners."""
        self._event = columns.event_timers
        self._processing = columns.processing_timers
        self._changed = columns.changed

    def release(self) -> None:
        """Detach from the columns. Used by runners."""
        self._event = self._processing = NOTHING
        self._changed = set()

    def current_processing_time(self) -> int:
        """Return the processing time, which is constant while a batch is processed or timers fire."""
        return self._current.processing_time_ms

    def current_watermark(self) -> int:
        """Return the watermark; -2^63 before the first watermark."""
        return self._current.watermark_ms

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a call of `on_timer` when the watermark reaches a time. Raises `TimerError` for an invalid time."""
        self._register(self._event, timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a call of `on_timer` when processing time reaches a time. Raises `TimerError` if it is invalid."""
        self._register(self._processing, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the event-time timer at a time, if there is one."""
        self._delete(self._event, timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the processing-time timer at a time, if there is one."""
        self._delete(self._processing, timestamp)

    def _register(self, of_slots: list[list[int] | None], timestamp: int) -> None:
        slot = self._current.slot
        timers = of_slots[slot]
        if timestamp.__class__ is not int or not _FIRST <= timestamp <= _LAST:
            raise _no_time(timestamp)
        if not timers:
            of_slots[slot] = [timestamp]
        elif timestamp > timers[-1]:
            timers.append(timestamp)
        else:
            place = bisect_left(timers, timestamp)
            if timers[place] == timestamp:
                return
            timers.insert(place, timestamp)
        self._changed.add(slot)

    def _delete(self, of_slots: list[list[int] | None], timestamp: int) -> None:
        slot = self._current.slot
        timers = of_slots[slot]
        if timestamp.__class__ is not int:
            raise _no_time(timestamp)
        if not timers:
            return
        place = bisect_left(timers, timestamp)
        if place < len(timers) and timers[place] == timestamp:
            del timers[place]
            self._changed.add(slot)


class TimerServiceWithoutKeys(TimerService):
    """The current times without timers, because timers belong to keys."""

    __slots__ = ()

    def _register(self, of_slots: list[list[int] | None], timestamp: int) -> NoReturn:
        raise TimerError(f"a timer at {timestamp} cannot be set here: timers belong to keys, {_WHERE}")

    def _delete(self, of_slots: list[list[int] | None], timestamp: int) -> NoReturn:
        raise TimerError(f"the timer at {timestamp} cannot be deleted here: timers belong to keys, {_WHERE}")


_FIRST, _LAST = -(2**63), 2**63 - 1
_WHERE = "so use them in a KeyedProcessFunction after key_by(...), in process_element or on_timer"


def _no_time(timestamp: object) -> TimerError:
    return TimerError(
        f"a timer cannot be at {timestamp!r}: its time is an int, in milliseconds since the epoch"
        " (of a datetime, (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))"
    )
