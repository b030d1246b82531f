"""Effects of an execution attempt's machine, which its Task performs."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, LogWarning, Role, StartTimer, Tell
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """Stop the Task: the attempt has ended, and nothing of it runs."""


TaskEffect = Tell[Role | Ref | ResultPartitionId] | StartTimer | LogWarning | EndAttempt | Ignore
"""A partition id stands for the sender of its elements: the producing Task, or the TaskManager that keeps them."""
