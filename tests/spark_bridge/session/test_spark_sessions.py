"""Tests the errors that explain why a session no longer runs."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session import spark_sessions
from flykka.spark_bridge.session.spark_sessions import SessionState, SparkSessions

NOTICED = SerializedThrowable(type_name="Py4JError", message="no answer")


@pytest.mark.parametrize(
    ("last_state", "name"), [(SessionState.GONE, "SparkLostError"), (SessionState.STOPPED, "SessionStoppedError")]
)
def test_a_jvm_that_stops_its_session_before_exiting_is_reported_as_lost(
    monkeypatch: pytest.MonkeyPatch, last_state: SessionState, name: str
) -> None:
    states = iter([SessionState.STOPPED, SessionState.STOPPED, last_state])

    def refuse(settings: Any) -> Any:
        raise SessionError("Connection refused")

    monkeypatch.setattr(spark_sessions, "state_of", lambda session: next(states))
    monkeypatch.setattr(spark_sessions, "restarted_session", refuse)
    monkeypatch.setattr(spark_sessions, "end_of_jvm", lambda: "it has run out of memory")
    session = MagicMock()

    explained = SparkSessions(session, owned=True).explain(session, NOTICED)

    assert explained.type_name == name
    assert explained.suppress_restarts
