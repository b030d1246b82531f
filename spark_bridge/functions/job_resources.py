"""Resources of a job for its functions: cached files, parameters and broadcast variables.

Only the process that runs the function knows the paths of files, which `find` returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from flykka.spark_bridge.errors import JobResourceError

Collect = Callable[[], Sequence[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFile:
    """A file or folder, with the name that functions use. `unit` is its name in all folders with files of jobs.

    `registered` is the call that registered the file, with the user's line.
    """

    name: str
    unit: str
    registered: str


def _nowhere(file: CachedFile) -> str:
    raise AssertionError(f"{file.name!r} was not registered with a job")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResources:
    """Cached files by name, the job's parameters, and the broadcast variables of one operator by name.

    The variables are None while a function is tested before they are declared. Then every name exists and is empty.
    """

    cached_files: Mapping[str, CachedFile] = field(default_factory=dict)
    global_job_parameters: Mapping[str, str] = field(default_factory=dict)
    broadcast_variables: Mapping[str, Collect] | None = field(default_factory=dict)
    find: Callable[[CachedFile], str] = _nowhere


NO_RESOURCES = JobResources()


class WithJobResources(ABC):
    """The base class of contexts: resources of the job, with Flink's names."""

    __slots__ = ()

    @abstractmethod
    def _job_resources(self) -> JobResources: ...

    def get_cached_file(self, name: str) -> str:
        """Return the path of a cached file on this machine; for an archive, the folder with its unpacked content.

        Raises:
            JobResourceError: no file was registered with this name, or it is not on this machine.
        """
        resources = self._job_resources()
        file = resources.cached_files.get(name)
        if file is None:
            how = "call env.register_cached_file(path, name) before you define the operator"
            raise JobResourceError(f"there is no cached file {name!r}, {_only(resources.cached_files)}: {how}")
        return resources.find(file)

    @property
    def global_job_parameters(self) -> Mapping[str, str]:
        """The parameters of the job, by name, as passed to `env.set_global_job_parameters(...)`."""
        return MappingProxyType(dict(self._job_resources().global_job_parameters))

    def get_job_parameter(self, key: str, default: str | None = None) -> str | None:
        """Return a parameter of the job, or `default` if it is not set."""
        return self._job_resources().global_job_parameters.get(key, default)

    def get_broadcast_variable(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a broadcast variable, in arbitrary order, but the same in every subtask and after every
        restart.

        Raises:
            JobResourceError: the operator has no variable with this name.
        """
        variables = self._job_resources().broadcast_variables
        if variables is None:
            return []
        collect = variables.get(name)
        if collect is None:
            how = "add one with with_broadcast_set(stream, name) after the operator"
            raise JobResourceError(f"there is no broadcast variable {name!r}, {_only(variables)}: {how}")
        return list(collect())


def _only(names: Iterable[str]) -> str:
    listed = ", ".join(map(repr, names))
    return f"only {listed}" if listed else "and no others exist"
