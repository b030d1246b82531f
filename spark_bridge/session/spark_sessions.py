"""The Spark session that a data plane works with, as long as it runs; and another one where it was stopped.

A session that flykka has started is started anew, with the same settings: rows that lay in the old one are gone, and
jobs go on from their checkpoints. One of the user's own is not ours to start. Where the JVM itself is gone nothing can
be started: Columns and functions of the program lay in it.

A stopped session is noticed by who works with it, and the new one is made by the thread that has noticed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session.session import restarted_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("flykka.spark_bridge")


_STOPPED_NAME = "SessionStoppedError"
_STOPPED = "the Spark session was stopped while the job ran"
_GO_ON = "leave it running until the job has ended; a retained checkpoint lets the job go on"
_JVM_GONE = (
    "the JVM of Spark has ended, and with it all that this program has there: it was killed, has run out of memory"
    " (spark.driver.memory) or has crashed (then hs_err_pid*.log says why). Start the program again; a retained"
    " checkpoint lets the job go on"
)


class SessionState(Enum):
    """Whether a session can run anything."""

    RUNNING = auto()
    STOPPED = auto()
    GONE = auto()
    """With its JVM."""


def state_of(session: SparkSession) -> SessionState:
    """Ask the JVM, which answers at once or is not there."""
    context = session.sparkContext
    try:
        if SparkContext._gateway is None:
            return SessionState.GONE
        SparkContext._gateway.jvm.java.lang.System.nanoTime()
        if context._jsc is None or context._jsc.sc().isStopped():
            return SessionState.STOPPED
    except (OSError, Py4JError):
        return SessionState.GONE
    return SessionState.RUNNING


class SparkSessions:
    """The application's session of now. Safe to use from any thread."""

    def __init__(self, session: SparkSession, *, owned: bool) -> None:
        """`owned`: flykka has started it, and may start another one in its place."""
        self._lock = Lock()
        self._current = session
        self._owned = owned
        self._settings = dict(session.sparkContext.getConf().getAll()) if owned else {}

    @property
    def current(self) -> SparkSession:
        """The session of now, whether it runs or not."""
        return self._current

    def is_lost(self, session: SparkSession) -> bool:
        """Whether a session that work was begun with cannot run any more."""
        return state_of(session) is not SessionState.RUNNING

    def ensure_running(self) -> None:
        """Begin another session where that of now was stopped. May take a second.

        Raises:
            SessionError: it is not ours to begin, or none can be started.
        """
        match state_of(self._current):
            case SessionState.RUNNING:
                return
            case SessionState.GONE:
                raise SessionError(_JVM_GONE)
            case SessionState.STOPPED if not self._owned:
                raise SessionError("the Spark session was stopped; it is the program's own: make another environment")
            case SessionState.STOPPED:
                self._begin_anew()

    def explain(self, session: SparkSession, cause: SerializedThrowable) -> SerializedThrowable:
        """`cause` of what has failed in `session`, or that this is stopped or gone. May begin another one."""
        match state_of(session):
            case SessionState.RUNNING:
                return cause
            case SessionState.GONE:
                return _instead(cause, "SparkLostError", _JVM_GONE, fatal=True)
            case SessionState.STOPPED if not self._owned:
                text = f"{_STOPPED}; it is the program's own, so flykka starts no other one: {_GO_ON}"
                return _instead(cause, _STOPPED_NAME, text, fatal=True)
            case SessionState.STOPPED:
                try:
                    self._begin_anew()
                except SessionError as refused:
                    return _instead(cause, _STOPPED_NAME, f"{_STOPPED}, and no other one starts: {refused}", fatal=True)
                return _instead(cause, _STOPPED_NAME, f"{_STOPPED}; another one was started in its place", fatal=False)

    def _begin_anew(self) -> None:
        with self._lock:
            if self.is_lost(self._current):
                self._current = restarted_session(self._settings)
                logger.warning("%s: another one was started in its place", _STOPPED)


def _instead(cause: SerializedThrowable, name: str, text: str, *, fatal: bool) -> SerializedThrowable:
    """The failure that explains another one, whose text goes into the stack."""
    stack = f"{text}\n\nWhat was noticed of it:\n{cause.type_name}: {cause.message}\n{cause.stack_trace}"
    return replace(cause, type_name=name, message=text, stack_trace=stack, suppress_restarts=fatal)
