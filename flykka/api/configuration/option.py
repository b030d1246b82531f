"""ConfigOption: an option under the one name that it has everywhere (Flink's class)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.api.user_files import UserFiles

Values = Mapping[str, Any]
"""Values of options by their names."""

PREFIX = "FLYKKA_"
"""The begin of the environment variables."""


class OptionGroup(StrEnum):
    """The heading of an option in `flykka run --help`."""

    CLUSTER = "the cluster"
    JOBS = "the jobs"
    FUNCTIONS = "files and parameters of functions"
    CHECKPOINTS = "checkpoints and savepoints"
    START = "where jobs start"
    RECORDING = "looking inside"
    REST = "the web page and the REST interface (the extra `web`)"
    REPORTING = "reporting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption:
    """An option: `read` makes its value of what was written for it, and raises `ValueError` where that is wrong.

    `shape` shows the form of a value, `default` says in words what holds where nothing is said. An option of the
    cluster is a `field` of `ClusterSettings`; one of jobs has `apply`, which sets it for an environment. An option may
    be both: then the field is what holds for jobs that say nothing. One that functions are written with has `register`,
    which is called when an environment is made. Where a text `is_path`, it is relative to the file that it stands in.
    """

    name: str
    shape: str
    read: Callable[[Any], Any]
    description: str
    default: str
    group: OptionGroup
    field: str | None = None
    apply: Callable[[JobSettings, Any], object] | None = None
    register: Callable[[UserFiles, Any], object] | None = None
    is_path: bool = False

    @property
    def flag(self) -> str:
        """The option of a command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.name.upper()}"
