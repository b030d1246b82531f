"""The body of a task, described in words and translated to the replies of a bridge.

`[blocks, then] returns | raises X(text)`; X may be wrapped: `raises Wrapper(X(text))`. A body that only blocks ends
when it is interrupted, unless the case makes it uninterruptible. A body that holds a lock which its cancel hook needs,
or that ignores its cancel hook, ends when it is interrupted, that is, at the second request to close.
"""

from __future__ import annotations

import re

from flykka.actors.machines.attempt.events import TaskEvent
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import CancelTask, TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.errors import OperatorFailedError
from tests.conformance.case_files import UnknownWordError

_RAISES = re.compile(r"raises(?: (?:an? )?(?P<raised>\w[\w.]*(?:\(.*\))?))?")
_STUBBORN = re.compile(
    r"uninterrupt|not interruptible|(ignor|swallow|never|cannot|not|even|keeps)[^,]*interrupt|never (end|ret)"
)
_NEEDS_INTERRUPT = re.compile(
    r"holds a lock|cancel( hook)? (also )?blocks|blocks in (its )?cancel"
    r"|(ignor|swallow)\w* (the |its )?cancel(?!.* and interrupt)"
)
_CANCEL_TASK = "CancelTaskException"


class Body:
    def __init__(self, words: str) -> None:
        first, then, last = words.partition(", then ")
        self._is_stubborn = _STUBBORN.search(words) is not None
        self._needs_interrupt = _NEEDS_INTERRUPT.search(words) is not None
        self._blocks = "blocks" in first or self._needs_interrupt or self._is_stubborn
        self._outcome = last if then else "returns" if self._blocks else first
        if self._outcome != "returns" and _RAISES.fullmatch(self._outcome) is None:
            raise UnknownWordError(f"body {words!r}")
        self._interrupts = 0

    def entered(self, descriptor: TaskDeploymentDescriptor) -> list[TaskEvent]:
        return [] if self._blocks else [self.released(descriptor)]

    def released(self, descriptor: TaskDeploymentDescriptor) -> TaskEvent:
        if self._outcome == "returns":
            source = descriptor.vertex.operators[0].operator_id
            return NoMoreSplits(attempt=descriptor.attempt, operator_id=source)
        found = _RAISES.fullmatch(self._outcome)
        raised = (found and found["raised"]) or "ValueError(raised by the body)"
        if raised.startswith(_CANCEL_TASK):
            # In Flink the body finds that its producer is gone. In flykka the task is notified, and cancels itself.
            return CancelTask(attempt=descriptor.attempt)
        return EngineFailed(cause=_bridge_failure(raised))

    def ends_when_interrupted(self) -> bool:
        """Return whether the body ends at the second request to close the bridge."""
        self._interrupts += 1
        if self._is_stubborn:
            return False
        return not self._needs_interrupt or self._interrupts > 1

    @property
    def is_interrupted(self) -> bool:
        return self._interrupts > 0


def _bridge_failure(raised: str) -> SerializedThrowable:
    """Return the bridge's report of an exception; an error that names the operator wraps the user's error."""
    inner = raised
    is_wrapped = (nested := re.fullmatch(r"\w+\((\w+\(.*\))\)", raised)) is not None
    if nested is not None:
        inner = nested[1]
    name, _, text = inner.partition("(")
    exception = type(name, (Exception,), {})(text.rstrip(")"))
    if not is_wrapped:
        return serialized("the body", exception)
    wrapper = OperatorFailedError("the body", None)
    wrapper.__cause__ = exception
    return serialized("a stage", wrapper)
