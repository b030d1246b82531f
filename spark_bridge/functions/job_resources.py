"""Resources of a job that its functions ask for: cached files, parameters and broadcast variables.

Where a file lies is known to the process that the function works in alone: `find` says it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from flykka.spark_bridge.errors import JobResourceError

Collect = Callable[[], Sequence[dict[str, Any]]]
"""Gives the rows of a broadcast variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFile:
    """A file or folder by the name that functions know. Its `unit` is how it is called wherever files of jobs lie.

    `registered` is the call that has registered it, with the user's line.
    """

    name: str
    unit: str
    registered: str


def _nowhere(file: CachedFile) -> str:
    raise AssertionError(f"{file.name!r} was registered with no job")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResources:
    """Cached files by name, the job's parameters, and the broadcast variables of one operator by name.

    These are None where a function is tried, before it is said which it has: then any is there, and empty.
    """

    cached_files: Mapping[str, CachedFile] = field(default_factory=dict)
    global_job_parameters: Mapping[str, str] = field(default_factory=dict)
    broadcast_variables: Mapping[str, Collect] | None = field(default_factory=dict)
    find: Callable[[CachedFile], str] = _nowhere


NO_RESOURCES = JobResources()


class WithJobResources(ABC):
    """The base of contexts: resources of the job, by Flink's names."""

    __slots__ = ()

    @abstractmethod
    def _job_resources(self) -> JobResources:
        """Return what there is. Raises where the context is not in use."""

    def get_cached_file(self, name: str) -> str:
        """Return the path of a cached file on this machine; of an archive, the folder in which it was unpacked.

        Raises:
            JobResourceError: none was registered under this name, or it is not here.
        """
        resources = self._job_resources()
        file = resources.cached_files.get(name)
        if file is None:
            how = "before the operator is written, env.register_cached_file(path, name) registers one"
            raise JobResourceError(f"there is no cached file {name!r}, {_only(resources.cached_files)}: {how}")
        return resources.find(file)

    @property
    def global_job_parameters(self) -> Mapping[str, str]:
        """The parameters of the job, by name, as `env.set_global_job_parameters(...)` was given them."""
        return MappingProxyType(dict(self._job_resources().global_job_parameters))

    def get_job_parameter(self, key: str, default: str | None = None) -> str | None:
        """Return a parameter of the job; `default` where it has none of this name."""
        return self._job_resources().global_job_parameters.get(key, default)

    def get_broadcast_variable(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a broadcast variable, in no order: the same in every subtask and after every restart.

        Raises:
            JobResourceError: the operator has none of this name.
        """
        variables = self._job_resources().broadcast_variables
        if variables is None:
            return []
        collect = variables.get(name)
        if collect is None:
            how = "with_broadcast_set(stream, name) behind the operator gives it one"
            raise JobResourceError(f"there is no broadcast variable {name!r}, {_only(variables)}: {how}")
        return list(collect())


def _only(names: Iterable[str]) -> str:
    known = ", ".join(map(repr, names))
    return f"only {known}" if known else "nor any other"
