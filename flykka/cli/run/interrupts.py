"""Ctrl-C: once stops the jobs that run, twice cancels them; SIGTERM is as good as a Ctrl-C, and SIGHUP stops only.

A job that cannot be stopped, for it restarts after one failure after the other, goes on after a Ctrl-C, for
its user is there to decide. SIGTERM and SIGHUP end the run all the same, as if it were killed: its checkpoints stay.
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
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobType
from flykka.runtime.errors import ActorDeadError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ONE_REQUEST_SECONDS = 1.0
"""`timeout` sends SIGTERM to the process and to its group, a service manager SIGTERM and SIGHUP: one request each."""


class Wish(Enum):
    """The request of the signals so far."""

    GO_ON = 0
    STOP = 1
    CANCEL = 2


class Interrupts:
    """Handles the signals from `__enter__` to `__exit__`, in the main thread.

    While no job runs, and when even the cancellation is interrupted, a signal is a KeyboardInterrupt, as in any Python
    program. Else the handler only takes note: it may have interrupted code that holds a lock.
    """

    def __init__(
        self,
        running: Callable[[], Sequence[JobClient]],
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wish = Wish.GO_ON
        self.asked = threading.Event()
        """Set when the first signal has come."""
        self._running = running
        self._say = say
        self._clock = clock
        self._requested: float | None = None
        self._asked_by = signal.SIGINT
        self._refused: list[JobClient] = []
        self._leaves = False
        self._leaving = threading.Lock()
        self._noted: SimpleQueue[Wish] = SimpleQueue()
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        threading.Thread(target=self._perform, name="interrupts", daemon=True).start()
        # A signal may have been set to be ignored, as shells do for what runs in the background.
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install_handlers()
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # as getsignal gave it
        self._noted.put(Wish.GO_ON)

    def install_handlers(self) -> None:
        """See to it that the signals come to us: a SparkContext that the app makes takes SIGINT for itself."""
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                if before is not signal.SIG_IGN:
                    signal.signal(number, self._on_signal)

    def reach(self, client: JobClient) -> None:
        """A job was being submitted when the others were interrupted, perhaps: it goes their way."""
        if self.wish is not Wish.GO_ON:
            self._begin(self.wish, client)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._leaves:
            raise KeyboardInterrupt
        if number != signal.SIGINT and self._is_known(number):
            return
        self.asked.set()
        self._asked_by = signal.Signals(number)
        if self.wish is Wish.CANCEL or not self._running():
            raise KeyboardInterrupt
        self.wish = Wish(self.wish.value + 1)
        self._noted.put(self.wish)

    def _is_known(self, number: int) -> bool:
        """True if this was asked for already. A terminal that goes away may say so more than once, and asks to stop."""
        now = self._clock()
        if self._requested is not None and now - self._requested < _ONE_REQUEST_SECONDS:
            return True
        self._requested = now
        return number == signal.SIGHUP and self.wish is not Wish.GO_ON

    def _perform(self) -> None:
        while (wish := self._noted.get()) is not Wish.GO_ON:
            running = self._running()
            stops = wish is Wish.STOP and not (running and all(map(_is_batch, running)))
            self._say(f"stopping: taking a last checkpoint{self._hint(running)}" if stops else "cancelling")
            for client in running:
                self._begin(wish, client)

    def _begin(self, wish: Wish, client: JobClient) -> None:
        # On a thread of its own: a stop takes as long as a checkpoint, and may be followed by a cancellation.
        # A batch job has nothing to be stopped with.
        perform = self._stop if wish is Wish.STOP and not _is_batch(client) else self._cancel
        threading.Thread(target=perform, args=(client,), name=f"{wish.name.lower()}-job", daemon=True).start()

    def _stop(self, client: JobClient) -> None:
        has_directory = client.job_graph.checkpointing.savepoint_directory is not None
        failed = _failure(client.stop_with_savepoint if has_directory else client.stop)
        if failed is not None and self.wish is Wish.STOP and not client.done():
            if self._asked_by is signal.SIGINT:
                self._say(f"not stopped, it goes on{self._hint([client])}: {failed}")
            else:
                self._say(f"not stopped, ending without a last checkpoint: {failed}")
                self._refused.append(client)
        self._leave()

    def _leave(self) -> None:
        """End the run where nothing is left but what cannot be stopped."""
        with self._leaving:
            if self._leaves or not self._refused or any(client not in self._refused for client in self._running()):
                return
            self._leaves = True
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, self._asked_by)

    def _hint(self, clients: Sequence[JobClient]) -> str:
        """Say what the next signal does, where the sender of this one can read it and send another."""
        again = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}.get(self._asked_by)
        return "" if again is None else f" ({again} again {_cancelling(clients)})"

    def _cancel(self, client: JobClient) -> None:
        failed = _failure(client.cancel)
        if failed is not None and not client.done():
            self._say(f"not cancelled: {failed}")


def _cancelling(clients: Sequence[JobClient]) -> str:
    """Tell the consequences of a cancellation: for the jobs, and for what they could be continued from."""
    keeps = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    if all(client.job_graph.checkpointing.retention is keeps for client in clients):
        return "cancels, and keeps the last completed checkpoint"
    return "cancels, and deletes the checkpoints of this run"


def _is_batch(client: JobClient) -> bool:
    return client.job_graph.job_type is JobType.BATCH


def _failure(end: Callable[[], object]) -> Exception | None:
    """Tell why a job could not be brought to its end; None where it was, or where its cluster has ended with it."""
    try:
        end()
    except ActorDeadError:
        return None
    except (FlykkaError, TimeoutError) as failed:
        return failed
    return None
