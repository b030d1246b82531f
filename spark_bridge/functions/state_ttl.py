"""Time-to-live of state, by Flink's names: `StateTtlConfig` and its builder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flykka.runtime.durations import Duration, positive_duration_ms


class UpdateType(Enum):
    """Accesses from which a value lives for its time again."""

    OnCreateAndWrite = "on-create-and-write"
    OnReadAndWrite = "on-read-and-write"


class StateVisibility(Enum):
    """Visibility of values that have expired and are still there."""

    NeverReturnExpired = "never-return-expired"
    ReturnExpiredIfNotCleanedUp = "return-expired-if-not-cleaned-up"


class TtlTimeCharacteristic(Enum):
    """Time that values live by.

    In event time a value lives from the time of the row that has touched it, or from the watermark where that is later,
    and has expired when the watermark comes to its end.
    """

    ProcessingTime = "processing-time"
    EventTime = "event-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtlConfig:
    """Time that values live, each entry of a list or a map by itself: `StateTtlConfig.new_builder("1 day").build()`."""

    ttl_ms: int
    update_type: UpdateType = UpdateType.OnCreateAndWrite
    state_visibility: StateVisibility = StateVisibility.NeverReturnExpired
    time_characteristic: TtlTimeCharacteristic = TtlTimeCharacteristic.ProcessingTime

    UpdateType = UpdateType
    StateVisibility = StateVisibility
    TtlTimeCharacteristic = TtlTimeCharacteristic

    @classmethod
    def new_builder(cls, ttl: Duration) -> StateTtlConfigBuilder:
        """Return a builder. Raises `DurationError` where `ttl` is no time above zero."""
        return StateTtlConfigBuilder(positive_duration_ms(ttl, "the time-to-live"))

    def expired_to(self, *, watermark_ms: int, processing_time_ms: int) -> int:
        """Return the time up to which a value must have been touched last to have expired now."""
        is_event_time = self.time_characteristic is TtlTimeCharacteristic.EventTime
        return (watermark_ms if is_event_time else processing_time_ms) - self.ttl_ms


class StateTtlConfigBuilder:
    """Builds a `StateTtlConfig`, as in PyFlink."""

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._update_type = UpdateType.OnCreateAndWrite
        self._visibility = StateVisibility.NeverReturnExpired
        self._characteristic = TtlTimeCharacteristic.ProcessingTime

    def set_update_type(self, update_type: UpdateType) -> StateTtlConfigBuilder:
        """Say which accesses let a value live for its time again."""
        self._update_type = UpdateType(update_type)
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Let a value live from when it was written; this is so unless said otherwise."""
        return self.set_update_type(UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Let a value live from when it was written or read."""
        return self.set_update_type(UpdateType.OnReadAndWrite)

    def set_state_visibility(self, visibility: StateVisibility) -> StateTtlConfigBuilder:
        """Say whether a value is returned that has expired and is still there."""
        self._visibility = StateVisibility(visibility)
        return self

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """Return no expired value; this is so unless said otherwise."""
        return self.set_state_visibility(StateVisibility.NeverReturnExpired)

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """Return an expired value that is still there."""
        return self.set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    def set_ttl_time_characteristic(self, characteristic: TtlTimeCharacteristic) -> StateTtlConfigBuilder:
        """Say which time values live by."""
        self._characteristic = TtlTimeCharacteristic(characteristic)
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Let values live by processing time; this is so unless said otherwise."""
        return self.set_ttl_time_characteristic(TtlTimeCharacteristic.ProcessingTime)

    def use_event_time(self) -> StateTtlConfigBuilder:
        """Let values live by event time."""
        return self.set_ttl_time_characteristic(TtlTimeCharacteristic.EventTime)

    def build(self) -> StateTtlConfig:
        """Return the configuration."""
        return StateTtlConfig(
            ttl_ms=self._ttl_ms,
            update_type=self._update_type,
            state_visibility=self._visibility,
            time_characteristic=self._characteristic,
        )
