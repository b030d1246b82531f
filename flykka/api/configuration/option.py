"""ConfigOption: an option with the one name that is used everywhere (Flink's class)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.api.user_files import UserFiles

Values = Mapping[str, Any]

PREFIX = "FLYKKA_"


class OptionGroup(StrEnum):
    """The headings of options in `flykka run --help`."""

    CLUSTER = "the cluster"
    JOBS = "the jobs"
    FUNCTIONS = "files and parameters of functions"
    CHECKPOINTS = "checkpoints and savepoints"
    START = "start of jobs"
    RECORDING = "recordings"
    REST = "the web page and the REST interface (the extra `web`)"
    REPORTING = "reporting"


@dataclass(frozen=True, slots=True)
class Form:
    """The type of an option's value: `shape` describes it in help texts, and `read` parses it.

    `read` raises `ValueError` for an invalid value. If `is_path`, a relative path in a file is relative to that file.
    """

    shape: str
    read: Callable[[Any], Any]
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """The description of an option, its default in words, and what the option sets.

    A job option `sets` a field of JobSettings, given as a path or a function. A cluster option sets a `field` of
    `ClusterSettings`. An option with both is the cluster's default for jobs that do not set it. An option for user
    functions has `register`, which is called when an environment is created. `flags` are additional command-line names,
    as in Flink.
    """

    description: str
    default: str
    sets: str | Callable[[JobSettings, Any], JobSettings] | None = None
    field: str | None = None
    register: Callable[[UserFiles, Any], object] | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOption:
    name: str
    group: OptionGroup
    form: Form
    meaning: Meaning

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def flags(self) -> tuple[str, ...]:
        return (*self.meaning.flags, self.flag)

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    def applied(self, settings: JobSettings, value: Any) -> JobSettings:
        sets = self.meaning.sets
        if sets is None:
            return settings
        return settings.with_field(sets, value) if isinstance(sets, str) else sets(settings, value)


def rows(group: OptionGroup, table: type) -> Iterator[ConfigOption]:
    for name, annotated in table.__annotations__.items():
        form, meaning = annotated.__metadata__
        yield ConfigOption(name=name, group=group, form=form, meaning=meaning)
