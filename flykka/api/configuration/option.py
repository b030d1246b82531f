"""ConfigOption: an option under the one name that it has everywhere (Flink's class)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a value: `shape` shows it, and `read` makes the value of what was written for it.

    `read` raises `ValueError` if that is wrong. A text that `is_path` is relative to the file that it stands in.
    """

    shape: str
    read: Callable[[Any], Any]
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of an option, and its default in words.

    An option of jobs `sets` a field of JobSettings, by its path or a function; one of the cluster is a `field` of
    `ClusterSettings`. An option may be both: then the field is the default of jobs that say nothing. One that functions
    are written with has `register`, which is called when an environment is made. `flags` are more names on the command
    line, as Flink's has them.
    """

    description: str
    default: str
    sets: str | Callable[[JobSettings, Any], JobSettings] | None = None
    field: str | None = None
    register: Callable[[UserFiles, Any], object] | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption:
    """A row of the table of options, with its name."""

    name: str
    group: OptionGroup
    form: Form
    meaning: Meaning

    @property
    def flag(self) -> str:
        """The option of a command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def flags(self) -> tuple[str, ...]:
        """All its names on a command line."""
        return (*self.meaning.flags, self.flag)

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    def applied(self, settings: JobSettings, value: Any) -> JobSettings:
        """The settings of jobs with this value. Raises `ProgramError` if it does not go with the others."""
        sets = self.meaning.sets
        if sets is None:
            return settings
        return settings.with_field(sets, value) if isinstance(sets, str) else sets(settings, value)


def rows(group: OptionGroup, table: type) -> Iterator[ConfigOption]:
    """Yield the options of a `TypedDict` whose types are annotated with a Form and a Meaning."""
    for name, annotated in table.__annotations__.items():
        form, meaning = annotated.__metadata__
        yield ConfigOption(name=name, group=group, form=form, meaning=meaning)
