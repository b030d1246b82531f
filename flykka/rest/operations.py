"""Operations that take longer than a request: triggered, then polled by trigger id (Flink's async handlers).

A result is kept for five minutes. A repeated trigger id refers to the same operation.
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


class AsyncOperations:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="flykka-rest-operation")
        # Reentrant: if an operation ends before its callback is added, the callback runs on the same thread.
        self._lock = threading.RLock()
        self._running: OrderedDict[Key, Future[Json]] = OrderedDict()
        self._ended: dict[Key, float] = {}

    def trigger(self, about: str, trigger_id: str | None, operation: Callable[[], Json]) -> str:
        """Start an operation unless it exists. Raises `RestError` if there are too many."""
        key = about, trigger_id or uuid4().hex
        with self._lock:
            self._forget()
            if key in self._running:
                return key[1]
            if len(self._running) >= _MOST:
                raise RestError(
                    503,
                    f"{_MOST} operations are running or their results were not fetched: try again later",
                    passes=True,
                )
            self._running[key] = self._threads.submit(operation)
            self._running[key].add_done_callback(lambda _: self._record_end(key))
        return key[1]

    def result(self, about: str, trigger_id: str, failure: str = "failure-cause") -> Json:
        """Return the status of an operation, with its result, or with its failure in the field `failure`.

        Raises `RestError` if the operation is unknown.
        """
        with self._lock:
            self._forget()
            future = self._running.get((about, trigger_id))
        if future is None:
            raise RestError(404, f"Operation {trigger_id} is not known, or was done more than five minutes ago")
        if not future.done():
            return {"status": {"id": "IN_PROGRESS"}}
        raised = future.exception()
        operation = future.result() if raised is None else {failure: _failure(raised)}
        return {"status": {"id": "COMPLETED"}, "operation": operation}

    def close(self) -> None:
        """Start no more operations, without waiting for running ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _record_end(self, key: Key) -> None:
        with self._lock:
            self._ended[key] = self._clock()

    def _forget(self) -> None:
        limit = self._clock() - STORE_SECONDS
        for key in [key for key, ended in self._ended.items() if ended < limit]:
            del self._ended[key]
            self._running.pop(key, None)


def _failure(raised: BaseException) -> Json:
    """Format a failure for any client, without Java's serialized form."""
    name = type(raised).__name__
    return {"class": name, "stack-trace": masked(f"{name}: {raised}"), "serialized-throwable": ""}
