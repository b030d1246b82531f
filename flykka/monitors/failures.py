"""Checks that no actor fails because of a bug in flykka, such as a failed assertion or an out-of-order channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flykka.messages.tasks.task import UpdateTaskExecutionState
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnSent, Violation
from flykka.runtime.trace.records import Turn

_BUGS = frozenset({"AssertionError", "AttributeError", "IllegalTransitionError", "IndexError", "KeyError", "TypeError"})
_BROKEN_CHANNELS = frozenset({"CreditOverrunError", "SequenceMismatchError"})
"""Errors of channels. They indicate a bug, because no message between actors in one process is lost or reordered."""
_BRIDGE = "/bridge"
"""The path suffix of actors that run the user code of an attempt. Their errors are the user's."""


class FailureMonitor(ConversationMonitor):
    name = "failures"

    def sent(self) -> Mapping[type, OnSent]:
        return {UpdateTaskExecutionState: self._on_state}

    def raised(self, turn: Turn) -> Iterator[Violation]:
        failure = turn.failure
        if failure is not None and failure.type_name in _BUGS and not turn.recipient.path.endswith(_BRIDGE):
            yield self.violation(turn, f"raises {failure.type_name}: {failure.message}")

    def _on_state(self, turn: Turn, _to: Ref, message: UpdateTaskExecutionState) -> Iterable[Violation]:
        failure = message.state.failure
        if failure is None or failure.type_name not in _BROKEN_CHANNELS:
            return ()
        return [self.violation(turn, f"{message.state.attempt} fails with {failure.type_name}: {failure.message}")]
