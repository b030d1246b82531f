"""The options of one environment, merged from its file, its program and its launcher."""

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
    """Option values of three levels: `defaults` of a file, the program's values, and the launcher's `overrides`."""

    def __init__(self, defaults: Values | None = None, overrides: Values | None = None) -> None:
        self._defaults, self.overrides = defaults or {}, overrides or {}
        self._program_values: Values = {}

    def set_options(self, options: Mapping[str, object], where: str = _IN_THE_PROGRAM) -> None:
        """Set options from the program; later calls override earlier calls.

        Raises:
            ConfigurationError: there is no such option, or its value is invalid.
        """
        self._program_values = merged(self._program_values, read_values(options, where))

    @property
    def values(self) -> Values:
        """The values in effect.

        Raises:
            ConfigurationError: a value requires another option that is not set.
        """
        values = merged(self._defaults, self._program_values, self.overrides)
        if (wrong := incomplete(values)) is not None:
            raise ConfigurationError(wrong)
        return values

    def with_defaults(self, settings: JobSettings) -> JobSettings:
        """Apply the job options that are set before the program calls any setter. Raises `ProgramError`."""
        values = merged(self._defaults, self._program_values)
        # Cluster defaults are left out: they apply to jobs without a setting, and applying them here would count as a
        # setting.
        return applied(settings, {name: each for name, each in values.items() if OPTIONS[name].meaning.field is None})

    def register_files(self, files: UserFiles) -> None:
        values = self.values
        for option in OPTIONS.values():
            if option.name in values and option.meaning.register is not None:
                option.meaning.register(files, values[option.name])

    def master(self) -> str:
        master: str = self.values.get("master", DEFAULT_MASTER)
        return master

    def cluster_settings(self) -> ClusterSettings:
        values = self.values
        fields_set: dict[str, Any] = {
            option.meaning.field: values[name]
            for name, option in OPTIONS.items()
            if option.meaning.field and name in values
        }
        network = NetworkSettings(**{name: fields_set.pop(name) for name in _OF_NETWORK if name in fields_set})
        bounds = {name: values[name] for name in ("ring", "max_bytes") if name in values}
        if bounds and isinstance(fields_set["record"], str):
            fields_set["record"] = TraceRecorder(fields_set["record"], **bounds)
        cpu, memory, managed = (values.get(name) for name in _OF_RESOURCES)
        resources, network = declared_resources(cpu, memory, managed, network, fields_set.get("slots_per_task_manager"))
        return ClusterSettings(**fields_set, network=network, resources=resources)
