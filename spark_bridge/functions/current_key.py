"""The current key, with its slot and times. Runners set it; states, timers and contexts read it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NoReturn

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.errors import KeyContextError
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources


class TimeDomain(Enum):
    """The time domain of a timer."""

    EVENT_TIME = "event-time"
    PROCESSING_TIME = "processing-time"


class CurrentKey:
    """The current key. A runner has only one such object.

    `timestamp` is the time of the row or timer in milliseconds, or None for a row without a time. `domain` is the time
    domain of the timestamp. Contexts provide the job's `resources`.
    """

    __slots__ = ("domain", "keys", "processing_time_ms", "resources", "slot", "timestamp", "watermark_ms")

    def __init__(self, resources: JobResources = NO_RESOURCES) -> None:
        self.resources = resources
        self.keys: Sequence[Any] = ()
        self.slot = 0
        self.timestamp: int | None = None
        self.domain = TimeDomain.EVENT_TIME
        self.watermark_ms = WATERMARK_MIN
        self.processing_time_ms = 0

    def event_time_ms(self) -> int:
        if self.timestamp is None or self.domain is TimeDomain.PROCESSING_TIME:
            return self.watermark_ms
        return max(self.timestamp, self.watermark_ms)


class _NoKey(list[Any]):
    """Replaces state while there is no current key. Every access raises."""

    def __getitem__(self, _: Any) -> NoReturn:
        raise _no_key()

    def __setitem__(self, _: Any, __: Any) -> NoReturn:
        raise _no_key()

    def __reduce__(self) -> str:
        return "NOTHING"


class _NoSlot:
    """Replaces the slot of a row without a key. Every lookup raises."""

    def __index__(self) -> NoReturn:
        raise KeyContextError(
            "a broadcast row belongs to no key, so process_broadcast_element has neither keyed state nor timers:"
            " store in broadcast state what process_element needs"
        )

    def __reduce__(self) -> str:
        return "NO_SLOT"


class _NoCurrentKey(CurrentKey):
    """Replaces the current key in an invalid context."""

    def __init__(self) -> None:
        """Leaves the fields of the base class unset, so that any access fails."""

    def __reduce__(self) -> str:
        return "NO_CURRENT_KEY"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # Copying an object looks up such attributes.
        raise KeyContextError(
            "a context was used outside of its call: keep it neither in the function nor in a generator, and use the"
            " ctx of the current call"
        )


def _no_key() -> KeyContextError:
    return KeyContextError(
        "state and timers belong to the current key, but there is none: use them in process_element and on_timer, not"
        " in open, close, process_watermark or after the call"
    )


NOTHING: list[Any] = _NoKey()
NO_SLOT: Any = _NoSlot()
NO_CURRENT_KEY: CurrentKey = _NoCurrentKey()
