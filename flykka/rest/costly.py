"""Computes responses that take seconds. Only a few are computed at a time, so that all other responses stay fast."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from threading import RLock
from typing import Any

from flykka.rest.errors import RestError

WAITING = 16


class Cost(IntEnum):
    """The type of cost. The value is the number of responses that are computed at a time."""

    PROCESSOR = 1
    """The response needs CPU time of the interpreter."""
    ACTORS = 4
    """The response waits for actors or sampled threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costly:
    """A response to compute. Concurrent requests with the same `key` share one computation."""

    cost: Cost
    make: Callable[[], Any]
    key: Hashable | None = None


class CostlyAnswers:
    def __init__(self) -> None:
        self._threads = {cost: ThreadPoolExecutor(cost, f"flykka-rest-{cost.name.lower()}") for cost in Cost}
        # Reentrant: if a response is ready before its callback is added, the callback runs on the same thread.
        self._lock = RLock()
        self._pending: dict[Cost, dict[Hashable, Future[Any]]] = {cost: {} for cost in Cost}

    def begin(self, costly: Costly) -> Future[Any]:
        """Start to compute a response unless it is being computed. Raises `RestError` if too many are waiting."""
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
