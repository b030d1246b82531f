"""The command `flykka`, with the agency's bug planted in it: the checkpoint coordinator only counts acknowledgements.

    python buggy_flykka.py simulate --seeds 100    a command of flykka's
    python -m pytest -p buggy_flykka               tests of flykka's

A duplicate acknowledgement of a task counts as that of another task.
"""

from __future__ import annotations

import sys

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PlannedTask, TaskAcknowledgeResult
from flykka.cli.main import main
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.wire.ids import ExecutionAttemptId

_expects, _acknowledge = PendingCheckpoint.expects, PendingCheckpoint.acknowledge


def expects(self: PendingCheckpoint, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
    """Accept every acknowledgement while any task is pending, even a duplicate one."""
    answer = _expects(self, attempt)
    counts = answer is TaskAcknowledgeResult.DUPLICATE and self.awaited
    return TaskAcknowledgeResult.SUCCESS if counts else answer


def acknowledge(self: PendingCheckpoint, attempt: ExecutionAttemptId, state: TaskStateSnapshot | None) -> PlannedTask:
    """Acknowledge for another task if this task is not pending."""
    awaited = attempt if attempt in self.awaited else min(self.awaited)
    return _acknowledge(self, awaited, state)


PendingCheckpoint.expects = expects  # type: ignore[method-assign]
PendingCheckpoint.acknowledge = acknowledge  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
