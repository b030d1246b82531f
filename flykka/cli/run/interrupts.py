"""Handles signals: the first Ctrl-C stops the running jobs, the second cancels them.

Batch jobs cannot be stopped, so the first Ctrl-C cancels them. SIGTERM acts like Ctrl-C; SIGHUP only stops. A job that
restarts again and again cannot be stopped either. It keeps running after Ctrl-C, because its user can decide. SIGTERM
and SIGHUP end the run anyway, as if it were killed, and its checkpoints are retained.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from queue import SimpleQueue
from types import FrameType

from flykka.client.job_client import JobClient
from flykka.errors import FlykkaError
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobType
from flykka.runtime.errors import ActorDeadError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ONE_REQUEST_SECONDS = 1.0
"""Signals within this time count as one request: `timeout` signals both the process and its group, and SIGHUP may
follow.
"""


class StopRequest(Enum):
    NONE = 0
    STOP = 1
    CANCEL = 2


class Interrupts:
    """Handles signals from `__enter__` to `__exit__`, in the main thread.

    While no job is running, or if a cancellation is interrupted, a signal raises KeyboardInterrupt, as in any Python
    program. Otherwise the handler only records the request, because it may have interrupted code that holds a lock.
    """

    def __init__(
        self,
        running: Callable[[], Sequence[JobClient]],
        notify: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.request = StopRequest.NONE
        self.signalled = threading.Event()
        self._running = running
        self._notify = notify
        self._clock = clock
        self._requested: float | None = None
        self._asked_by = signal.SIGINT
        self._refused: list[JobClient] = []
        self._cancelled: list[JobClient] = []
        self._leaves = False
        self._leaving = threading.Lock()
        self._noted: SimpleQueue[StopRequest] = SimpleQueue()
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        threading.Thread(target=self._perform, name="interrupts", daemon=True).start()
        # Shells may start background processes with ignored signals. An ignored signal is not handled here.
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install_handlers()
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # as getsignal gave it
        self._noted.put(StopRequest.NONE)

    def install_handlers(self) -> None:
        """Install the handlers. Called again after the app creates a SparkContext, which installs its own SIGINT
        handler.
        """
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                if before is not signal.SIG_IGN:
                    signal.signal(number, self._on_signal)

    @property
    def has_cancelled(self) -> bool:
        """True if the jobs were cancelled: by the second request, or batch jobs by the first."""
        return self.request is StopRequest.CANCEL or any(
            client.status is JobStatus.CANCELED for client in self._cancelled
        )

    def apply_to(self, client: JobClient) -> None:
        if self.request is not StopRequest.NONE:
            self._begin(self.request, client)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._leaves:
            raise KeyboardInterrupt
        if number != signal.SIGINT and self._is_repeated(number):
            return
        self.signalled.set()
        self._asked_by = signal.Signals(number)
        if self.request is StopRequest.CANCEL or not self._running():
            raise KeyboardInterrupt
        self.request = StopRequest(self.request.value + 1)
        self._noted.put(self.request)

    def _is_repeated(self, number: int) -> bool:
        """Return whether the signal repeats a request, because a closing terminal may send several signals."""
        now = self._clock()
        if self._requested is not None and now - self._requested < _ONE_REQUEST_SECONDS:
            return True
        self._requested = now
        return number == signal.SIGHUP and self.request is not StopRequest.NONE

    def _perform(self) -> None:
        while (request := self._noted.get()) is not StopRequest.NONE:
            running = self._running()
            stops = request is StopRequest.STOP and not (running and all(map(_is_batch, running)))
            self._notify(f"stopping: taking a last checkpoint{self._hint(running)}" if stops else "cancelling")
            for client in running:
                self._begin(request, client)

    def _begin(self, request: StopRequest, client: JobClient) -> None:
        # A separate thread is used because a stop takes as long as a checkpoint, and a cancellation may follow.
        perform = self._stop if request is StopRequest.STOP and not _is_batch(client) else self._cancel
        threading.Thread(target=perform, args=(client,), name=f"{request.name.lower()}-job", daemon=True).start()

    def _stop(self, client: JobClient) -> None:
        has_directory = client.job_graph.checkpointing.savepoint_directory is not None
        failed = _failure(client.stop_with_savepoint if has_directory else client.stop)
        if failed is not None and self.request is StopRequest.STOP and not client.done():
            if self._asked_by is signal.SIGINT:
                self._notify(f"not stopped, so it keeps running{self._hint([client])}: {failed}")
            else:
                self._notify(f"not stopped; ending it without a last checkpoint: {failed}")
                self._refused.append(client)
        self._leave()

    def _leave(self) -> None:
        """End the run if all running jobs are jobs that cannot be stopped."""
        with self._leaving:
            if self._leaves or not self._refused or any(client not in self._refused for client in self._running()):
                return
            self._leaves = True
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, self._asked_by)

    def _hint(self, clients: Sequence[JobClient]) -> str:
        """Describe the effect of the next signal, if a user can read the text and send a signal."""
        again = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}.get(self._asked_by)
        return "" if again is None else f" ({again} again {_cancelling(clients)})"

    def _cancel(self, client: JobClient) -> None:
        self._cancelled.append(client)
        failed = _failure(client.cancel)
        if failed is not None and not client.done():
            self._notify(f"not cancelled: {failed}")


def _cancelling(clients: Sequence[JobClient]) -> str:
    keeps = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    if all(client.job_graph.checkpointing.retention is keeps for client in clients):
        return "cancels, and keeps the last completed checkpoint"
    return "cancels, and deletes the checkpoints of this run"


def _is_batch(client: JobClient) -> bool:
    return client.job_graph.job_type is JobType.BATCH


def _failure(end: Callable[[], object]) -> Exception | None:
    """Return the reason why a job could not be ended, or None. The termination of its cluster is no failure."""
    try:
        end()
    except ActorDeadError:
        return None
    except (FlykkaError, TimeoutError) as failed:
        return failed
    return None
