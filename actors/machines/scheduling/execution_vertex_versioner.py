"""Versions of tasks: only the newest decision on a task holds (Flink's ExecutionVertexVersioner).

Each failover that a task is part of gives it a new version. When the time of a failover has come, it only touches those
tasks whose version is still the one it gave them: the others belong to a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class ExecutionVertexVersioner(Generic[T]):
    """Versions of tasks, from 0."""

    def __init__(self) -> None:
        self._versions: dict[T, int] = {}

    def record_modifications(self, tasks: Iterable[T]) -> dict[T, int]:
        """Give these tasks a new version."""
        for task in tasks:
            self._versions[task] = self.version(task) + 1
        return {task: self._versions[task] for task in tasks}

    def version(self, task: T) -> int:
        """The version of a task."""
        return self._versions.get(task, 0)

    def is_modified(self, task: T, version: int) -> bool:
        """True if the task has got a newer version since."""
        return self.version(task) != version

    def unmodified(self, versions: Mapping[T, int]) -> tuple[T, ...]:
        """The tasks that still have the version given."""
        return tuple(task for task, version in versions.items() if not self.is_modified(task, version))
