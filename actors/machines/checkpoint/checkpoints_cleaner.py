"""Deletes what no checkpoint needs any more, in the background, a few deletions at a time.

Mirrors Flink's CheckpointsCleaner. What waits counts as much as what is under way: the coordinator begins no checkpoint
while too much does. Deletions begin in the order in which they were asked for, so that checkpoints leave the store from
the oldest on; state by itself, which comes in many small parts from tasks that are late, goes together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from flykka.actors.machines.checkpoint.effects import Dispose


class CheckpointsCleaner:
    """Deletions of one job: at most `max_concurrent` under way, the others wait."""

    def __init__(self, max_concurrent: int) -> None:
        if max_concurrent < 1:
            raise ValueError(f"at least one deletion has to be allowed at a time, not {max_concurrent}")
        self._max_concurrent = max_concurrent
        self._under_way = 0
        self._waiting: deque[Dispose] = deque()

    def __len__(self) -> int:
        """The number of deletions that have not ended."""
        return self._under_way + len(self._waiting)

    def add(self, disposal: Dispose) -> Iterator[Dispose]:
        """Delete this when it is its turn."""
        self._waiting.append(disposal)
        yield from self._begin()

    def add_last(self) -> None:
        """Take note of a deletion of everything: nothing else is deleted then."""
        assert not self, "a job is deleted when nothing else is"
        self._under_way += 1

    def ended(self) -> Iterator[Dispose]:
        """A deletion has run its course: the next one begins."""
        assert self._under_way > 0, "a deletion ends once"
        self._under_way -= 1
        yield from self._begin()

    def abandon(self) -> None:
        """Nothing is to be deleted here any more."""
        self._under_way = 0
        self._waiting.clear()

    def check(self) -> None:
        """Raise `AssertionError` where too much is under way, or something waits without need."""
        assert 0 <= self._under_way <= self._max_concurrent
        assert not self._waiting or self._under_way == self._max_concurrent

    def _begin(self) -> Iterator[Dispose]:
        while self._waiting and self._under_way < self._max_concurrent:
            self._under_way += 1
            yield self._next()

    def _next(self) -> Dispose:
        first = self._waiting.popleft()
        if not _is_state_only(first):
            return first
        state = list(first.state)
        while self._waiting and _is_state_only(self._waiting[0]):
            state += self._waiting.popleft().state
        return Dispose(state=tuple(state))


def _is_state_only(disposal: Dispose) -> bool:
    return not disposal.retained and not disposal.checkpoints
