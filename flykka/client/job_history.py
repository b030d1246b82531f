"""Messages about a job, kept for listeners that come late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import merge

from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.ids import JobVertexId
from flykka.messages.wire.message import Message

HISTORY = 1_000
"""The number of messages about a job that are kept, besides the metrics."""


class JobHistory:
    """The last messages, in the order in which they came, and of every subtask the latest metrics.

    Metrics come once per interval and subtask, as long as the job runs: counted with the others, those of a wide job
    would push out everything else.
    """

    def __init__(self, limit: int = HISTORY) -> None:
        self._messages: deque[tuple[int, Message]] = deque(maxlen=limit)
        self._metrics: dict[tuple[JobVertexId, int], tuple[int, Message]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[Message]:
        metrics = sorted(self._metrics.values(), key=_number)
        return iter([message for _, message in merge(self._messages, metrics, key=_number)])

    def add(self, message: Message) -> None:
        """Take note of a message; what it makes needless, and the oldest above the limit, is forgotten."""
        numbered = (self._next, message)
        self._next += 1
        if isinstance(message, MetricsReported):
            self._metrics[message.vertex_id, message.subtask] = numbered
        else:
            self._messages.append(numbered)


def _number(numbered: tuple[int, Message]) -> int:
    return numbered[0]
