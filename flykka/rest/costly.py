"""Answers that take seconds to compute. Only a few are computed at a time, so that all others are fast."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from threading import RLock
from typing import Any

from flykka.rest.errors import RestError

WAITING = 16
"""The maximum number of waiting answers of each kind."""


class Cost(IntEnum):
    """The kind of cost, with the number of answers that are computed at a time."""

    PROCESSOR = 1
    """Keeps the interpreter busy."""
    ACTORS = 4
    """Asks actors or samples threads, and mostly waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costly:
    """An answer to compute. Concurrent requests with the same `key` share it; without a key each has its own."""

    cost: Cost
    make: Callable[[], Any]
    key: Hashable | None = None


class CostlyAnswers:
    def __init__(self) -> None:
        self._threads = {cost: ThreadPoolExecutor(cost, f"flykka-rest-{cost.name.lower()}") for cost in Cost}
        # An answer may complete before its callback is added, which then runs on the same thread.
        self._lock = RLock()
        self._pending: dict[Cost, dict[Hashable, Future[Any]]] = {cost: {} for cost in Cost}

    def begin(self, costly: Costly) -> Future[Any]:
        """Start to compute an answer, unless an equal one is in progress. Raises `RestError` if there are too many."""
        key, pending = object() if costly.key is None else costly.key, self._pending[costly.cost]
        with self._lock:
            if (existing := pending.get(key)) is not None:
                return existing
            if len(pending) >= costly.cost + WAITING:
                raise RestError(503, f"{len(pending)} slow requests are being answered already", passes=True)
            pending[key] = future = self._threads[costly.cost].submit(costly.make)
        future.add_done_callback(lambda _: self._forget(pending, key))
        return future

    def close(self) -> None:
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self, pending: dict[Hashable, Future[Any]], key: Hashable) -> None:
        with self._lock:
            del pending[key]
