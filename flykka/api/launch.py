"""Options that a launcher sets for the environments of an app, and the app's events that it receives.

`flykka run` is a launcher. Its options override options that the app sets for an environment, but not options of a
single operator. Without a launcher, the options come from environment variables.
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
"""Returns the progress of a job's Spark work. May block, and raises errors of Py4J if Spark has stopped."""

_OF_FIRST_JOB = {name for name, option in OPTIONS.items() if option.group is OptionGroup.START} - {"fresh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Options of every environment, by name; all other options are left to the app.

    Start options, except `fresh`, apply only to the first job. `config_file` replaces the options file that is searched
    for by default. If no REST address is set and the launcher `offers_rest`, REST gets a free port.
    """

    values: Values = field(default_factory=dict)
    config_file: str | None = None
    offers_rest: bool = False

    def overrides(self) -> Values:
        return merged(environment_values(os.environ), self.values)

    def file(self) -> Path | None:
        override = {} if self.config_file is None else {CONFIG_FILE_VARIABLE: self.config_file}
        return configuration_file({**os.environ, **override}, Path.cwd())

    def all_values(self) -> Values:
        """Return the values in effect for an app that sets no options. Raises `ConfigurationError`."""
        file = self.file()
        return merged({} if file is None else file_values(file), self.overrides())


class Launch:
    """A run of an app. Launchers override the methods for the events that they handle."""

    shows_jobs = False
    """True if the launcher prints the events of jobs, so that a `Console` of the app need not."""

    takes_options = False
    """True if command-line options, not setters in Python, decide from which checkpoint a job starts."""

    only_plans = False
    """True if jobs are only planned and not run, so that Spark has little to do and should start quickly."""

    def __init__(self, options: LaunchOptions | None = None) -> None:
        self.options = options or LaunchOptions()
        self._is_first = True
        self._number = 0
        self._printed: set[str] = set()

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        """Return a context that is active while Spark starts at `master`, which takes seconds."""
        return nullcontext()

    def environment_options(self) -> EnvironmentOptions:
        """Return the options of another environment, before its program sets any options.

        Raises:
            ConfigurationError: an option in a file or an environment variable is invalid.
        """
        # Imported here because the import loads Spark, which the help of `flykka run` should not wait for.
        from flykka.api.configuration.resolved_options import EnvironmentOptions

        self._number += 1
        file, number = self.options.file(), self._number
        if file is not None:
            self._notify_once(f"options of {file}")
        for warning in unknown_variables(os.environ):
            self._notify_once(warning)
        defaults = {} if file is None else file_values(file)
        if self.options.offers_rest:
            defaults = merged({"rest": "0"}, defaults)
        return EnvironmentOptions(_numbered(defaults, number), _numbered(self.options.overrides(), number))

    def notify(self, text: str) -> None:
        """Print a message to stderr; in a notebook to stdout, because it shows stderr in red, as a failure."""
        print(f"flykka: {text}", file=sys.stdout if in_kernel() else sys.stderr, flush=True)

    def overridden(self, settings: JobSettings, overrides: Values) -> JobSettings:
        """Apply the launcher's options to the settings of the next job, right before its graph is built."""
        if not self._is_first:
            overrides = {name: value for name, value in overrides.items() if name not in _OF_FIRST_JOB}
        settings = applied(settings, overrides)
        self._is_first = False
        return settings

    def environment_created(self, environment: StreamExecutionEnvironment) -> None:
        """Handle the creation of an environment."""

    def before_execute(self, environment: StreamExecutionEnvironment, job_name: str) -> None:
        """Handle a call of `execute`, before the environment's operators become the job `job_name`."""

    def job_submitted(
        self,
        client: JobClient,
        *,
        keeps_checkpoints: bool,
        look: Look = tuple,
        rest_address: str | None = None,
        rest_token: str | None = None,
    ) -> None:
        """Handle a submitted job; `keeps_checkpoints` is True if its checkpoint folder outlives the environment.

        `look` returns the progress of the job's long-running Spark work. The address of the web page is printed once,
        with the token only on a terminal, because other output may be stored in a log.
        """
        if rest_address is not None:
            is_seen = sys.stdout.isatty() and sys.stderr.isatty()
            link = f"/#token={rest_token}" if is_seen and rest_token is not None else ""
            self._notify_once(f"web page and REST interface at {rest_address}{link}")

    def block_ended(self, environment: StreamExecutionEnvironment) -> None:
        """Handle the error-free end of an environment's `with` statement, before the environment is closed."""

    def _notify_once(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            self.notify(text)


def _numbered(values: Values, number: int) -> Values:
    """Adapt the values for environment `number` (1 is the first), which has its own trace file, store and address."""
    if number == 1:
        return values
    own = dict(values)
    if "record" in values:
        name, extension = os.path.splitext(values["record"])
        own["record"] = f"{name}-{number}{extension}"
    if "rest" in values:
        # The first environment uses the configured port, the others use free ports.
        host, separator, _ = values["rest"].rpartition(":")
        own["rest"] = f"{host}{separator}0"
    if values.get("high_availability") is not None:
        from flykka.cluster.high_availability.stores import numbered

        own["high_availability"] = numbered(values["high_availability"], number)
    return own


_NO_LAUNCHER = Launch()
_current = _NO_LAUNCHER


def current_launch() -> Launch:
    """Return the launch of this process; a `Launch` without options if the app was started without a launcher."""
    return _current


@contextmanager
def launched(launch: Launch) -> Iterator[None]:
    """Make every environment of this process, on any thread, belong to `launch`."""
    # A global rather than a context variable, because an app may create its environments on other threads.
    global _current
    before, _current = _current, launch
    try:
        yield
    finally:
        _current = before
