"""Ctrl-C in a program with Spark: it interrupts the current call only, and cancels no jobs.

When a call is interrupted by Ctrl-C or the JVM's end, Py4J logs a page at the root logger before it raises the error.
The handler of the error reports it anyway: at a Ctrl-C, `flykka run` stops the jobs and a notebook ends the cell, and
without a JVM a job fails. After a Ctrl-C Py4J closes the connections of all threads, because all have the address of
the JVM. Then calls that a job makes on other threads fail, and possibly the next call of the interrupted thread.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Self

from py4j.clientserver import ClientServerConnection
from pyspark import SparkContext

logger = logging.getLogger("flykka.spark_bridge")

_TEXTS = ("KeyboardInterrupt while sending command.", "Exception while sending command.")

_send_command = ClientServerConnection.send_command


def isolate_interrupted_calls() -> None:
    """Let Ctrl-C interrupt only the current Py4J call. The call still raises, but is only logged at debug level."""
    logging.getLogger().addFilter(_is_other)
    ClientServerConnection.send_command = _close_if_interrupted


def _is_other(record: logging.LogRecord) -> bool:
    if record.msg not in _TEXTS:
        return True
    logger.debug(record.msg, exc_info=record.exc_info)
    return False


def _close_if_interrupted(connection: ClientServerConnection, command: str) -> str:
    try:
        return str(_send_command(connection, command))
    except KeyboardInterrupt:
        # If this connection has no socket, Py4J closes no others. The thread's next call creates a new connection.
        connection.close()
        raise


def spare_jobs_from_interrupts() -> None:
    """Remove the SIGINT handler installed by the SparkContext of a user's session, if it is still there."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == SparkContext.__module__:
            # Interrupts now act as without Spark, because the handler that Spark has replaced is unknown.
            signal.signal(signal.SIGINT, signal.default_int_handler)


class DeferredInterrupts:
    """Defers Ctrl-C while Spark starts, and then restores the handler: SparkContext's handler cancels all its jobs.

    With that handler, interrupting a notebook cell would also cancel all background stages. Only the main thread may
    set handlers, and SparkContext does so only there. While Spark starts, an interrupt waits, because Py4J would print
    pages about it and leave a partly created context. A second interrupt does not wait.
    """

    def __enter__(self) -> Self:
        self._handler = signal.getsignal(signal.SIGINT)
        self._keeps = threading.current_thread() is threading.main_thread() and self._handler is not None
        self._interrupts = 0
        self.defer()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if not self._keeps:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._interrupts and kind is None:
            signal.raise_signal(signal.SIGINT)

    def defer(self) -> None:
        """Defer the first interrupt to the end of the `with` block, unless interrupts are ignored anyway."""
        if self._keeps:
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._handler is signal.SIG_IGN else self._on_interrupt)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
