"""Recorded draws: drawing a program again from only some of its draws makes it smaller."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Draws of a seed, or recorded draws followed by zeros, which select the first and simplest option."""

    def __init__(self, source: random.Random | Sequence[int]) -> None:
        self._source = source
        self.recorded: list[int] = []

    def below(self, limit: int) -> int:
        """Draw an integer from 0 to below the limit."""
        if isinstance(self._source, random.Random):
            number = self._source.randrange(limit)
        else:
            place = len(self.recorded)
            number = min(self._source[place], limit - 1) if place < len(self._source) else 0
        self.recorded.append(number)
        return number

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def percent(self, chance: int) -> bool:
        """Return True with this probability in percent; the simplest choice is False."""
        return self.below(100) >= 100 - chance

    def some(self, options: Sequence[T], at_most: int) -> list[T]:
        """Draw between one and `at_most` of the options, in their order."""
        limit = min(at_most, len(options))
        places = {self.below(len(options)) for _ in range(1 + self.below(limit))}
        return [options[place] for place in sorted(places)]
