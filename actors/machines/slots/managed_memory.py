"""Tells a task how much of the managed memory of its slot is its own (Flink's getManagedMemorySize of a slot)."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.slots.resource_profile import MIB
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.tasks.task import TaskDeploymentDescriptor


def with_managed_memory(descriptor: TaskDeploymentDescriptor, size: ResourceSpec) -> TaskDeploymentDescriptor:
    """The descriptor, with the task's part of its slot's managed memory where that is declared."""
    if not size.managed_mib:
        return descriptor
    own = int(size.managed_mib * MIB * descriptor.vertex.managed_memory_fraction)
    return replace(descriptor, managed_memory_bytes=own)
