"""The options of one environment: what its file, its program and its launch say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.api.configuration.configuration import applied, incomplete, merged, read_values
from flykka.api.configuration.option import Values
from flykka.api.configuration.options import OPTIONS
from flykka.api.resource_options import declared_resources
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.errors import ConfigurationError
from flykka.runtime.trace.record.recorder import TraceRecorder

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.api.user_files import UserFiles

DEFAULT_MASTER = "local[*]"
_IN_THE_PROGRAM = "the environment"
_OF_RESOURCES = ("task_manager_cpu", "task_manager_memory", "managed_memory")
_OF_NETWORK = tuple(field.name for field in fields(NetworkSettings))


class EnvironmentOptions:
    """Values by precedence: `defaults` of a file, what the program has said, and `overrides` of the launch."""

    def __init__(self, defaults: Values | None = None, overrides: Values | None = None) -> None:
        self._defaults, self.overrides = defaults or {}, overrides or {}
        self._said: Values = {}

    def say(self, said: Mapping[str, object], where: str = _IN_THE_PROGRAM) -> None:
        """Take what the program says now; it has the last word over what it said before.

        Raises:
            ConfigurationError: there is no such option, or its value is wrong.
        """
        self._said = merged(self._said, read_values(said, where))

    @property
    def values(self) -> Values:
        """The values that hold.

        Raises:
            ConfigurationError: one of them is nothing without another, which is not there.
        """
        values = merged(self._defaults, self._said, self.overrides)
        if (wrong := incomplete(values)) is not None:
            raise ConfigurationError(wrong)
        return values

    def with_defaults(self, settings: JobSettings) -> JobSettings:
        """The settings with what is said for jobs before the program sets anything else. Raises `ProgramError`."""
        values = merged(self._defaults, self._said)
        # A default of the cluster holds for jobs that say nothing, and what is set for jobs would say something.
        return applied(settings, {name: each for name, each in values.items() if OPTIONS[name].meaning.field is None})

    def register_files(self, files: UserFiles) -> None:
        """Register what functions are written with. Raises `ProgramError`."""
        values = self.values
        for option in OPTIONS.values():
            if option.name in values and option.meaning.register is not None:
                option.meaning.register(files, values[option.name])

    def master(self) -> str:
        """The master of a new Spark session."""
        master: str = self.values.get("master", DEFAULT_MASTER)
        return master

    def cluster_settings(self) -> ClusterSettings:
        """The settings of the cluster. Raises as `values` does."""
        values = self.values
        said: dict[str, Any] = {
            option.meaning.field: values[name]
            for name, option in OPTIONS.items()
            if option.meaning.field and name in values
        }
        network = NetworkSettings(**{name: said.pop(name) for name in _OF_NETWORK if name in said})
        bounds = {name: values[name] for name in ("ring", "max_bytes") if name in values}
        if bounds and isinstance(said["record"], str):
            said["record"] = TraceRecorder(said["record"], **bounds)
        cpu, memory, managed = (values.get(name) for name in _OF_RESOURCES)
        resources, network = declared_resources(cpu, memory, managed, network, said.get("slots_per_task_manager"))
        return ClusterSettings(**said, network=network, resources=resources)
