"""Time-to-live of state, with Flink's names: `StateTtlConfig` and its builder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flykka.runtime.durations import Duration, positive_duration_ms


class UpdateType(Enum):
    """The accesses that restart a value's time-to-live."""

    OnCreateAndWrite = "on-create-and-write"
    OnReadAndWrite = "on-read-and-write"


class StateVisibility(Enum):
    """The visibility of expired values that have not been removed."""

    NeverReturnExpired = "never-return-expired"
    ReturnExpiredIfNotCleanedUp = "return-expired-if-not-cleaned-up"


class TtlTimeCharacteristic(Enum):
    """The time domain of time-to-live.

    In event time, the life of a value begins at the time of the row that accessed it, or at the watermark if that is
    later, and it expires when the watermark reaches the end of its life.
    """

    ProcessingTime = "processing-time"
    EventTime = "event-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtlConfig:
    """The time-to-live of values, and of each entry of a list or map: `StateTtlConfig.new_builder("1 day").build()`."""

    ttl_ms: int
    update_type: UpdateType = UpdateType.OnCreateAndWrite
    state_visibility: StateVisibility = StateVisibility.NeverReturnExpired
    time_characteristic: TtlTimeCharacteristic = TtlTimeCharacteristic.ProcessingTime

    UpdateType = UpdateType
    StateVisibility = StateVisibility
    TtlTimeCharacteristic = TtlTimeCharacteristic

    @classmethod
    def new_builder(cls, ttl: Duration) -> StateTtlConfigBuilder:
        """Return a builder. Raises `DurationError` if `ttl` is not a positive duration."""
        return StateTtlConfigBuilder(positive_duration_ms(ttl, "the time-to-live"))

    def expired_to(self, *, watermark_ms: int, processing_time_ms: int) -> int:
        """Return the latest access time of values that have expired now."""
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
        """Set the accesses that restart a value's time-to-live."""
        self._update_type = UpdateType(update_type)
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Restart time-to-live when a value is written. This is the default."""
        return self.set_update_type(UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Restart time-to-live when a value is written or read."""
        return self.set_update_type(UpdateType.OnReadAndWrite)

    def set_state_visibility(self, visibility: StateVisibility) -> StateTtlConfigBuilder:
        """Set whether expired values that have not been removed are returned."""
        self._visibility = StateVisibility(visibility)
        return self

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """Return no expired value. This is the default."""
        return self.set_state_visibility(StateVisibility.NeverReturnExpired)

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """Return an expired value if it has not been removed."""
        return self.set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)

    def set_ttl_time_characteristic(self, characteristic: TtlTimeCharacteristic) -> StateTtlConfigBuilder:
        """Set the time domain of time-to-live."""
        self._characteristic = TtlTimeCharacteristic(characteristic)
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Use processing time for time-to-live. This is the default."""
        return self.set_ttl_time_characteristic(TtlTimeCharacteristic.ProcessingTime)

    def use_event_time(self) -> StateTtlConfigBuilder:
        """Use event time for time-to-live."""
        return self.set_ttl_time_characteristic(TtlTimeCharacteristic.EventTime)

    def build(self) -> StateTtlConfig:
        """Return the configuration."""
        return StateTtlConfig(
            ttl_ms=self._ttl_ms,
            update_type=self._update_type,
            state_visibility=self._visibility,
            time_characteristic=self._characteristic,
        )
