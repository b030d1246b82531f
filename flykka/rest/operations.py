"""Operations that take longer than a request: triggered, and asked for by their trigger id (Flink's async handlers).

A result is kept for five minutes after it is there. The same trigger id again is the same operation.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import uuid4

from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json
from flykka.runtime.secrets import masked

STORE_SECONDS = 300.0
_AT_ONCE = 8
_MOST = 1_000

Key = tuple[str, str]
"""The subject of an operation, and its trigger id."""


class AsyncOperations:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="flykka-rest-operation")
        # An operation may be over before it is told what to do then, on the thread that has begun it.
        self._lock = threading.RLock()
        self._running: OrderedDict[Key, Future[Json]] = OrderedDict()
        self._ended: dict[Key, float] = {}

    def trigger(self, about: str, trigger_id: str | None, operation: Callable[[], Json]) -> str:
        """Begin an operation, unless it was begun; its id. Raises `RestError` where too many run."""
        key = about, trigger_id or uuid4().hex
        with self._lock:
            self._forget()
            if key in self._running:
                return key[1]
            if len(self._running) >= _MOST:
                raise RestError(503, f"{_MOST} operations run or were not asked for: try again later", passes=True)
            self._running[key] = self._threads.submit(operation)
            self._running[key].add_done_callback(lambda _: self._note_end(key))
        return key[1]

    def result(self, about: str, trigger_id: str, failure: str = "failure-cause") -> Json:
        """The status of an operation, and what came of it, or its `failure`. Raises `RestError` where it is unknown."""
        with self._lock:
            self._forget()
            found = self._running.get((about, trigger_id))
        if found is None:
            raise RestError(404, f"Operation {trigger_id} is not known, or was done more than five minutes ago")
        if not found.done():
            return {"status": {"id": "IN_PROGRESS"}}
        raised = found.exception()
        operation = found.result() if raised is None else {failure: _failure(raised)}
        return {"status": {"id": "COMPLETED"}, "operation": operation}

    def close(self) -> None:
        """Begin none any more, and wait for none."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _note_end(self, key: Key) -> None:
        with self._lock:
            self._ended[key] = self._clock()

    def _forget(self) -> None:
        limit = self._clock() - STORE_SECONDS
        for key in [key for key, ended in self._ended.items() if ended < limit]:
            del self._ended[key]
            self._running.pop(key, None)


def _failure(raised: BaseException) -> Json:
    """A failure that any client can read; Java's own form of it cannot be made here."""
    name = type(raised).__name__
    return {"class": name, "stack-trace": masked(f"{name}: {raised}"), "serialized-throwable": ""}
