"""Exponential backoff: each delay is twice the previous one, up to a limit, plus a random part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.wire.tags import trace_tag
from flykka.runtime.durations import Duration, positive_duration_ms

if TYPE_CHECKING:
    import random

_MAX_DOUBLINGS = 62


@trace_tag("backoff.delays")
@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays of `min_backoff`, twice that, four times that, ... up to `max_backoff`, each plus a random part.

    The random part keeps many actors from retrying at the same time. It is drawn from the actor's `random`, so it is
    reproducible with the seed. As in Akka it is also added to the limit.

    Args:
        min_backoff: the first delay.
        max_backoff: the limit of the delays.
        random_factor: 0.2 makes each delay longer by 0 to 20 %; 0 adds nothing.
        reset_after: the uptime after which the delays start again; by default the mean of the two limits.
    """

    min_backoff: Duration = "1s"
    max_backoff: Duration = "30s"
    random_factor: float = 0.2
    reset_after: Duration | None = None

    def __post_init__(self) -> None:
        if self.max_ms < self.min_ms:
            raise ValueError(f"max_backoff {self.max_backoff!r} is shorter than min_backoff {self.min_backoff!r}")
        if not 0 <= self.random_factor <= 1:
            raise ValueError(f"random_factor {self.random_factor!r} is not between 0 and 1")
        if self.reset_after is not None:
            positive_duration_ms(self.reset_after, "reset_after")

    @property
    def min_ms(self) -> int:
        """`min_backoff` in ms."""
        return positive_duration_ms(self.min_backoff, "min_backoff")

    @property
    def max_ms(self) -> int:
        """`max_backoff` in ms."""
        return positive_duration_ms(self.max_backoff, "max_backoff")

    @property
    def reset_after_ms(self) -> int:
        """`reset_after` in ms."""
        if self.reset_after is None:
            return (self.min_ms + self.max_ms) // 2
        return positive_duration_ms(self.reset_after, "reset_after")

    def delay_ms(self, tries: int, chance: random.Random) -> int:
        """Return the delay in ms after this number of earlier `tries`."""
        return exponential_ms(self.min_ms, self.max_ms, 2, tries, self.random_factor, chance)


def exponential_ms(
    min_ms: int, max_ms: int, factor: float, tries: int, random_factor: float, chance: random.Random
) -> int:
    delay = min(float(max_ms), min_ms * factor ** min(tries, _MAX_DOUBLINGS))
    return int(delay * (1 + random_factor * chance.random())) if random_factor else int(delay)
