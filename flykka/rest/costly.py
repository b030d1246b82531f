"""Costly answers: those that take seconds to make. A few are made at a time, so that all others come at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from threading import RLock
from typing import Any

from flykka.rest.errors import RestError

WAITING = 16
"""Answers of each kind that may wait until a thread is free."""


class Cost(IntEnum):
    """The kind of cost, with the number of answers that are made at a time."""

    PROCESSOR = 1
    """The interpreter is busy with it."""
    ACTORS = 4
    """Actors or all threads are asked: it mostly waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costly:
    """An answer to be made. Requests of the same `key` at the same time share one; without a key each has its own."""

    cost: Cost
    make: Callable[[], Any]
    key: Hashable | None = None


class CostlyAnswers:
    def __init__(self) -> None:
        self._threads = {cost: ThreadPoolExecutor(cost, f"flykka-rest-{cost.name.lower()}") for cost in Cost}
        # An answer may be there before its callback is added, and then it is forgotten by the thread that has begun it.
        self._lock = RLock()
        self._begun: dict[Cost, dict[Hashable, Future[Any]]] = {cost: {} for cost in Cost}

    def begin(self, costly: Costly) -> Future[Any]:
        """Begin to make an answer, unless an equal one is being made. Raises `RestError` if too many are."""
        key, begun = object() if costly.key is None else costly.key, self._begun[costly.cost]
        with self._lock:
            if (known := begun.get(key)) is not None:
                return known
            if len(begun) >= costly.cost + WAITING:
                raise RestError(503, f"{len(begun)} requests that take long are being answered already", passes=True)
            begun[key] = future = self._threads[costly.cost].submit(costly.make)
        future.add_done_callback(lambda _: self._forget(begun, key))
        return future

    def close(self) -> None:
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self, begun: dict[Hashable, Future[Any]], key: Hashable) -> None:
        with self._lock:
            del begun[key]
