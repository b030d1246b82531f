"""Decides what follows where event times go back that were to ascend."""

from __future__ import annotations

from flykka.actors.machines.attempt.attempt_life import AttemptLife
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.effects import LogWarning
from flykka.actors.machines.exchange.watermark_generators import MonotonyViolated
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


def violation_effects(
    violated: MonotonyViolated | None, life: AttemptLife, descriptor: TaskDeploymentDescriptor
) -> list[TaskEffect]:
    """Log a violation of the order, or fail the attempt, as it was asked for; nothing where there is none."""
    if violated is None:
        return []
    text = f"{descriptor.vertex.name}: {violated}"
    if violated.is_fatal:
        return life.fail(SerializedThrowable(type_name="MonotonyViolationError", message=text))
    return [LogWarning(text=text)]
