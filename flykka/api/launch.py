"""Options of the environments that an app makes, as its launcher sets them, and what the launcher is told of them.

`flykka run` is such a launcher. It has the last word: what it says holds for every environment, whatever the app says
for the environment as a whole. What an app says of a single operator stays. Without a launcher environment variables
have that word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.api.configuration.configuration import (
    CONFIG_FILE_VARIABLE,
    applied,
    environment_values,
    merged,
    unknown_variables,
)
from flykka.api.configuration.file import configuration_file, file_values
from flykka.api.configuration.option import OptionGroup, Values
from flykka.api.configuration.options import OPTIONS
from flykka.ipython import in_kernel

if TYPE_CHECKING:
    from flykka.api.configuration.resolved_options import EnvironmentOptions
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.job_settings import JobSettings
    from flykka.client.job_client import JobClient
    from flykka.messages.attempt.answers import WorkProgress

Look = Callable[[], "tuple[WorkProgress, ...]"]
"""Asks Spark how far the work of a job is. May block, and raises whatever Py4J raises where Spark is gone."""

_OF_FIRST_JOB = {name for name, option in OPTIONS.items() if option.group is OptionGroup.START} - {"fresh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Options of every environment, by their names; what is not there is left to the app.

    Those of the start, but for `fresh`, are for the first job only. A `config_file` takes the place of the file that is
    looked for. Where nothing says where the REST interface is, there is one if the launcher `offers_rest`, at any free
    port.
    """

    values: Values = field(default_factory=dict)
    config_file: str | None = None
    offers_rest: bool = False

    def overrides(self) -> Values:
        """The values that are said here, and by environment variables where nothing is. Raises `ConfigurationError`."""
        return merged(environment_values(os.environ), self.values)

    def file(self) -> Path | None:
        """The file with the defaults, if there is one. Raises `ConfigurationError`."""
        named = {} if self.config_file is None else {CONFIG_FILE_VARIABLE: self.config_file}
        return configuration_file({**os.environ, **named}, Path.cwd())

    def all_values(self) -> Values:
        """The values for an app that says nothing. Raises `ConfigurationError`."""
        file = self.file()
        return merged({} if file is None else file_values(file), self.overrides())


class Launch:
    """A run of an app. Launchers that want to be told of its events override the methods that tell."""

    shows_jobs = False
    """True if the launcher prints what happens to the jobs: then a `Console` of the app need not."""

    takes_options = False
    """True if options of a command line say where a job starts, and not setters in Python."""

    only_plans = False
    """True if no job is run, so that Spark has little to do and had better be there soon."""

    def __init__(self, options: LaunchOptions | None = None) -> None:
        self.options = options or LaunchOptions()
        self._is_first = True
        self._number = 0
        self._told: set[str] = set()

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        """Spark is being started at `master` while this is entered: it takes seconds in which nothing else happens."""
        return nullcontext()

    def environment_options(self) -> EnvironmentOptions:
        """The options of one more environment, in which its program has said nothing yet.

        Raises:
            ConfigurationError: those of a file or of environment variables are wrong.
        """
        # What makes settings of options loads Spark, and the help of `flykka run` should not have to wait for it.
        from flykka.api.configuration.resolved_options import EnvironmentOptions

        self._number += 1
        file, number = self.options.file(), self._number
        if file is not None:
            self._tell_once(f"options of {file}")
        for warning in unknown_variables(os.environ):
            self._tell_once(warning)
        defaults = {} if file is None else file_values(file)
        if self.options.offers_rest:
            defaults = merged({"rest": "0"}, defaults)
        return EnvironmentOptions(_numbered(defaults, number), _numbered(self.options.overrides(), number))

    def say(self, text: str) -> None:
        """Tell the user. A notebook shows the error stream in red, as a failure."""
        print(f"flykka: {text}", file=sys.stdout if in_kernel() else sys.stderr, flush=True)

    def overridden(self, settings: JobSettings, overrides: Values) -> JobSettings:
        """The settings of the next job: the launcher has the last word, right before the job is made."""
        if not self._is_first:
            overrides = {name: value for name, value in overrides.items() if name not in _OF_FIRST_JOB}
        settings = applied(settings, overrides)
        self._is_first = False
        return settings

    def environment_made(self, environment: StreamExecutionEnvironment) -> None:
        """The app has made an environment."""

    def program_written(self, environment: StreamExecutionEnvironment, job_name: str) -> None:
        """The app executes: what was written down in the environment is about to become a job of this name."""

    def job_submitted(
        self,
        client: JobClient,
        *,
        keeps_checkpoints: bool,
        look: Look = tuple,
        rest_address: str | None = None,
        rest_token: str | None = None,
    ) -> None:
        """A job was accepted; its checkpoint folder outlives the environment, or does not.

        `look` asks Spark how far that work of the job is which takes long. The address of the page is printed
        once; on a terminal with the token, for other outputs may be kept in a log.
        """
        if rest_address is not None:
            is_seen = sys.stdout.isatty() and sys.stderr.isatty()
            link = f"/#token={rest_token}" if is_seen and rest_token is not None else ""
            self._tell_once(f"web page and REST interface at {rest_address}{link}")

    def block_ended(self, environment: StreamExecutionEnvironment) -> None:
        """The `with` statement of an environment was left without an error; next the environment is closed."""

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.say(text)


def _numbered(values: Values, number: int) -> Values:
    """The values for the environment of this number, from 1: each records, keeps and answers in a place of its own."""
    if number == 1:
        return values
    own = dict(values)
    if "record" in values:
        name, extension = os.path.splitext(values["record"])
        own["record"] = f"{name}-{number}{extension}"
    if "rest" in values:
        # The first one has the port, and each other one a port that is free.
        host, separator, _ = values["rest"].rpartition(":")
        own["rest"] = f"{host}{separator}0"
    if values.get("high_availability") is not None:
        from flykka.cluster.high_availability.stores import numbered

        own["high_availability"] = numbered(values["high_availability"], number)
    return own


_NOBODY = Launch()
_current = _NOBODY


def current_launch() -> Launch:
    """The launch that this process is in; one that says nothing where the app was started otherwise."""
    return _current


@contextmanager
def launched(launch: Launch) -> Iterator[None]:
    """Have every environment of this process, on whatever thread, be one of this launch."""
    # Of the process, not of a context: an app may make its environments on threads of its own.
    global _current
    before, _current = _current, launch
    try:
        yield
    finally:
        _current = before
