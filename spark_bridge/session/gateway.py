"""Starts and ends the JVM of a Spark session that flykka starts.

The JVM runs in another process group than the driver, and ignores SIGTERM. A signal to the driver's group (Ctrl-C,
`timeout` or `kill -TERM -PGID`) or to every process of a service requests a stop with a last checkpoint, for which the
JVM is needed. The JVM still ends with the driver in any case: its standard input is a pipe from the driver, and
PySpark's gateway exits when the pipe closes.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress
from signal import Signals
from socketserver import BaseServer
from subprocess import TimeoutExpired
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.java_gateway import launch_gateway

from flykka.spark_bridge.errors import SessionError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

logger = logging.getLogger("flykka.spark_bridge")

_STDERR = 2
_LAST_WORDS_SECONDS = 5.0
_OUT_OF_MEMORY = 52
"""The exit status of Spark's JVM after an OutOfMemoryError."""

_REASON = re.compile(r"(Exception|Error|Unrecognized|Invalid|Caused by)\b")
"""Matches a line with the reason why a JVM does not start."""

_INCUBATOR = re.compile(rb"^WARNING: Using incubator modules: .*\n", re.MULTILINE)
"""A harmless warning about a module that Spark's launcher requests, printed before any option can suppress it."""


def ensure_gateway(conf: SparkConf) -> None:
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        # Callers report the end of the JVM. PySpark's thread would print a page about it.
        server.handle_error = _log_error  # type: ignore[method-assign]
    with SparkContext._lock:
        if SparkContext._gateway is None:
            SparkContext._ensure_initialized(conf=conf, gateway=_launched(conf))


def close_gateway() -> None:
    """End the JVM of this process, if there is one, and wait for its end. No session can be started afterwards."""
    gateway = SparkContext._gateway
    if gateway is not None and gateway.proc is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def end_of_jvm() -> str:
    """Return the reason why the JVM of this process has ended, if it is known, and a remedy."""
    process = None if SparkContext._gateway is None else SparkContext._gateway.proc
    try:
        status = None if process is None else process.wait(_LAST_WORDS_SECONDS)
    except TimeoutExpired:
        status = None
    return _words_of(status)


def _words_of(status: int | None) -> str:
    if status is None:
        return (
            "it was killed, has run out of memory (spark.driver.memory) or has crashed (then hs_err_pid*.log says why)"
        )
    if status == _OUT_OF_MEMORY:
        return (
            "it has run out of memory (see its last line on stderr). A row, or a batch of rows, takes many times its"
            " size there: give it more (spark.driver.memory), or make rows or batches smaller"
        )
    if status >= 0:
        return f"it has exited with status {status}, and its last lines on stderr say why"
    if -status in {Signals.SIGKILL, Signals.SIGTERM}:
        return f"it was killed ({Signals(-status).name}), by the kernel if the memory of the machine was used up"
    return f"it has crashed (signal {-status}), and hs_err_pid*.log says why"


def _log_error(self: BaseServer, request: Any, client_address: Any) -> None:
    if isinstance(sys.exception(), EOFError | ConnectionError):
        logger.debug("the JVM has closed its connection", exc_info=True)
    else:
        BaseServer.handle_error(self, request, client_address)


def _launched(conf: SparkConf) -> JavaGateway:
    reading, writing = os.pipe()
    stderr = _Stderr(reading)
    try:
        options = {"start_new_session": True, "stderr": writing}
        gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call] # PySpark's
    except Exception as failed:
        os.close(writing)
        if (reason := stderr.reason()) is None:
            raise
        raise SessionError(f"Java has ended: {reason}") from failed
    except BaseException:
        os.close(writing)
        raise
    os.close(writing)
    stderr.forward()
    if gateway.proc is not None:
        _ignore_sigterm(gateway)
    return gateway


def _ignore_sigterm(gateway: JavaGateway) -> None:
    misc = gateway.jvm.sun.misc
    try:
        misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)
    except Py4JJavaError as refused:
        # With -Xrs, the user wants the JVM to end at a SIGTERM like any other process.
        logger.info("the JVM of Spark ends at a SIGTERM: %s", refused)


class _Stderr:
    """The JVM's stderr, which is buffered while the JVM starts, and then copied to the driver's stderr.

    A JVM that does not start prints pages of usage or stack traces, of which one line contains the reason.
    """

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._lock = Lock()
        self._held: bytes | None = b""
        self._thread = Thread(target=self._read, name="jvm-stderr", daemon=True)
        self._thread.start()

    def forward(self) -> None:
        with self._lock:
            buffered, self._held = self._held or b"", None
            _copy(buffered)

    def reason(self) -> str | None:
        """Return the line with the reason why the JVM has ended, or None. Logs all lines."""
        self._thread.join(_LAST_WORDS_SECONDS)
        with self._lock:
            text = _INCUBATOR.sub(b"", self._held or b"").decode(errors="replace").strip()
        logger.debug("Java has written:\n%s", text)
        lines = [line.strip() for line in text.splitlines()]
        return next((line for line in lines if _REASON.match(line)), lines[0] if lines else None)

    def _read(self) -> None:
        while written := os.read(self._reading, 65_536):
            with self._lock:
                if self._held is None:
                    _copy(written)
                else:
                    self._held += written
        os.close(self._reading)


def _copy(written: bytes) -> None:
    # The JVM must not block if the driver's stderr is closed.
    with suppress(OSError):
        os.write(_STDERR, _INCUBATOR.sub(b"", written))
