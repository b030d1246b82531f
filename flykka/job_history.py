"""What was said about a job, for listeners that come late."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.messages.ids import ExecutionAttemptId
from flykka.messages.job import MetricsReported
from flykka.messages.message import Message

HISTORY = 1_000
"""How many messages about a job are kept."""


class JobHistory:
    """The last messages, in the order in which they came. Of the metrics of an attempt only the latest are kept.

    They come once per interval and attempt, as long as the job runs, and would push out everything else.
    """

    def __init__(self, limit: int = HISTORY) -> None:
        self._limit = limit
        self._messages: dict[int, Message] = {}
        self._metrics: dict[ExecutionAttemptId, int] = {}
        self._next = 0

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def add(self, message: Message) -> None:
        """Take note of a message; what it makes needless, and the oldest above the limit, is forgotten."""
        if isinstance(message, MetricsReported):
            self._forget(self._metrics.pop(message.attempt, None))
            self._metrics[message.attempt] = self._next
        self._messages[self._next] = message
        self._next += 1
        if len(self._messages) > self._limit:
            self._forget(next(iter(self._messages)))

    def _forget(self, number: int | None) -> None:
        if number is None:
            return
        forgotten = self._messages.pop(number)
        if isinstance(forgotten, MetricsReported) and self._metrics.get(forgotten.attempt) == number:
            del self._metrics[forgotten.attempt]
