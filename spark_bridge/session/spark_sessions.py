"""The Spark session of a data plane, and its replacement if it was stopped.

A session started by flykka is started again with the same settings: the rows in the old session are lost, and jobs
continue from their checkpoints. A session of the user is not restarted. If the JVM itself is gone, no session can be
started, because the program's Columns and functions were in that JVM.

The first thread that uses a stopped session starts the new session.
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
from flykka.spark_bridge.session.gateway import end_of_jvm
from flykka.spark_bridge.session.session import restarted_session, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("flykka.spark_bridge")


_STOPPED_NAME = "SessionStoppedError"
_STOPPED = "the Spark session was stopped while the job ran"
_GO_ON = "leave it running until the job has ended; the job can continue from a retained checkpoint"


class SessionState(Enum):
    RUNNING = auto()
    STOPPED = auto()
    GONE = auto()


def state_of(session: SparkSession) -> SessionState:
    """Return the state of a session. Does not block: the JVM replies at once or is gone."""
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
    """Thread-safe."""

    def __init__(self, session: SparkSession, *, owned: bool) -> None:
        """An `owned` session was started by flykka, which may replace it."""
        self._lock = Lock()
        self._current = session
        self._owned = owned
        self._settings = settings_of(session) if owned else {}

    @property
    def current(self) -> SparkSession:
        return self._current

    def is_lost(self, session: SparkSession) -> bool:
        return state_of(session) is not SessionState.RUNNING

    def ensure_running(self) -> None:
        """Replace a stopped session, which may take a second. Raises `SessionError` if it is the user's or cannot
        start.
        """
        match state_of(self._current):
            case SessionState.RUNNING:
                return
            case SessionState.GONE:
                raise SessionError(_jvm_gone())
            case SessionState.STOPPED if not self._owned:
                raise SessionError("the Spark session was stopped; it is the program's own: create another environment")
            case SessionState.STOPPED:
                self._restart()

    def explain(self, session: SparkSession, cause: SerializedThrowable) -> SerializedThrowable:
        """Return `cause`, or a failure that explains it if `session` is stopped or gone. May start a new session."""
        match state_of(session):
            case SessionState.RUNNING:
                return cause
            case SessionState.GONE:
                return _lost(cause)
            case SessionState.STOPPED if not self._owned:
                text = f"{_STOPPED}; it is the program's own session, so flykka does not start another one: {_GO_ON}"
                return _instead(cause, _STOPPED_NAME, text, fatal=True)
            case SessionState.STOPPED:
                try:
                    self._restart()
                except SessionError as refused:
                    # A JVM that is ending stops its session first.
                    if state_of(session) is SessionState.GONE:
                        return _lost(cause)
                    return _instead(
                        cause, _STOPPED_NAME, f"{_STOPPED}, and no other session is started: {refused}", fatal=True
                    )
                return _instead(cause, _STOPPED_NAME, f"{_STOPPED}; another one was started in its place", fatal=False)

    def _restart(self) -> None:
        with self._lock:
            if self.is_lost(self._current):
                self._current = restarted_session(self._settings)
                logger.warning("%s: another one was started in its place", _STOPPED)


def _jvm_gone() -> str:
    return (
        f"the JVM of Spark has ended, with all data of this program in it: {end_of_jvm()}. Start the program"
        " again; the job can continue from a retained checkpoint"
    )


def _lost(cause: SerializedThrowable) -> SerializedThrowable:
    return _instead(cause, "SparkLostError", _jvm_gone(), fatal=True)


def _instead(cause: SerializedThrowable, name: str, text: str, *, fatal: bool) -> SerializedThrowable:
    """Replace a failure by its explanation. The stack trace keeps the original message."""
    stack = f"{text}\n\nThe original error:\n{cause.type_name}: {cause.message}\n{cause.stack_trace}"
    return replace(cause, type_name=name, message=text, stack_trace=stack, suppress_restarts=fatal)
