"""Options that the launcher of an app sets for the environments that the app makes, and what it is told of them.

`flykka run` is such a launcher. It has the last word: what it says holds for every environment, whatever the app says
for the environment as a whole. What an app says of a single operator stays. Without a launcher nothing is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.ipython import in_kernel
from flykka.messages.graph.job_graph import (
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    RestartStrategyConfiguration,
)
from flykka.messages.tasks.bridge import WorkProgress
from flykka.rest.settings import RestSettings

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.job_settings import JobSettings
    from flykka.client.job_client import JobClient
    from flykka.cluster.high_availability.stores import StoreSettings
    from flykka.cluster.local_cluster import ClusterSettings
    from flykka.runtime.trace.record.recorder import TraceRecorder

Look = Callable[[], tuple[WorkProgress, ...]]
"""Asks Spark how far the work of a job is. May block, and raises whatever Py4J raises where Spark is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Options of every environment; None leaves it to the app.

    `from_checkpoint`, `from_savepoint` and `overwrite`, of which one is given at most, are for the first job only, and
    with the second `allow_non_restored_state`; `fresh` is for all jobs. With `ring`, `record` gets the last turns only,
    so many at least; with `max_bytes` it grows no further than that.
    Where neither `rest` nor the app says so, there is a REST interface if the launcher `offers_rest`, at any free port.
    """

    master: str | None = None
    task_managers: int | None = None
    slots_per_task_manager: int | None = None
    max_task_managers: int | None = None
    slot_request_timeout_ms: int | None = None
    parallelism: int | None = None
    checkpoint_directory: str | None = None
    checkpoint_interval_ms: int | None = None
    archive_directory: str | None = None
    retention: ExternalizedCheckpointRetention | None = None
    restart_strategy: RestartStrategyConfiguration | None = None
    failover_strategy: FailoverStrategyKind | None = None
    from_checkpoint: str | None = None
    savepoint_directory: str | None = None
    from_savepoint: str | None = None
    allow_non_restored_state: bool = False
    fresh: bool = False
    overwrite: tuple[str, ...] = ()
    high_availability: str | None = None
    record: str | None = None
    ring: int | None = None
    max_bytes: int | None = None
    rest: RestSettings | None = None
    offers_rest: bool = False
    otel: str | None = None


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
        self._clusters = 0
        self._servers = 0
        self._told_addresses: set[str] = set()

    def master(self, said: str) -> str:
        """The master of Spark for an app that names `said`."""
        return self.options.master or said

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        """Spark is being started at `master` while this is entered: it takes seconds in which nothing else happens."""
        return nullcontext()

    def cluster_settings(self, said: ClusterSettings) -> ClusterSettings:
        """The cluster of an environment, for an app that said `said`."""
        options = self.options
        self._clusters += 1
        return replace(
            said,
            task_managers=options.task_managers or said.task_managers,
            slots_per_task_manager=options.slots_per_task_manager or said.slots_per_task_manager,
            max_task_managers=options.max_task_managers or said.max_task_managers,
            slot_request_timeout_ms=options.slot_request_timeout_ms or said.slot_request_timeout_ms,
            record=said.record if options.record is None else self._recording(options.record),
            high_availability=said.high_availability if options.high_availability is None else self._store(),
        )

    def rest_settings(self, said: RestSettings | None) -> RestSettings | None:
        """The REST interface of an environment, for an app that said `said`: None for none."""
        options = self.options
        if options.rest is None:
            return RestSettings() if said is None and options.offers_rest else said
        self._servers += 1
        # Of several environments the first has the port, and each other one a port that is free.
        return options.rest if self._servers == 1 else replace(options.rest, port=0)

    def _store(self) -> StoreSettings | None:
        """Each environment has a store of its own."""
        from flykka.cluster.high_availability.stores import numbered, store_settings

        settings = store_settings(self.options.high_availability)
        return None if settings is None else numbered(settings, self._clusters)

    def _recording(self, file: str) -> str | TraceRecorder:
        """The first environment has the file, the next one a file beside it."""
        # Imported when it is wanted: the help of `flykka run` needs no recorder.
        from flykka.runtime.trace.record.recorder import TraceRecorder

        path, ring, max_bytes = _numbered(file, self._clusters), self.options.ring, self.options.max_bytes
        if ring is None and max_bytes is None:
            return path
        return TraceRecorder(path, ring=ring, max_bytes=max_bytes)

    def say(self, text: str) -> None:
        """Tell the user. A notebook shows the error stream in red, as a failure."""
        print(f"flykka: {text}", file=sys.stdout if in_kernel() else sys.stderr, flush=True)

    def override_settings(self, settings: JobSettings) -> None:
        """Have the last word on an environment, right before a job is made of what was written down in it."""
        options = self.options
        if options.parallelism is not None:
            settings.set_parallelism(options.parallelism)
        if options.checkpoint_directory is not None:
            settings.set_checkpoint_dir(options.checkpoint_directory)
        if options.archive_directory is not None:
            settings.set_archive_dir(options.archive_directory)
        if options.checkpoint_interval_ms is not None:
            settings.checkpointing = replace(settings.checkpointing, interval_ms=options.checkpoint_interval_ms)
        if options.retention is not None:
            settings.set_externalized_checkpoint_retention(options.retention)
        if options.restart_strategy is not None:
            settings.set_restart_strategy(options.restart_strategy)
        if options.failover_strategy is not None:
            settings.set_failover_strategy(options.failover_strategy)
        if options.savepoint_directory is not None:
            settings.set_default_savepoint_directory(options.savepoint_directory)
        if options.fresh:
            settings.from_checkpoint(None)
        if self._is_first and options.overwrite:
            settings.overwrite(*options.overwrite)
        if self._is_first and options.from_checkpoint is not None:
            settings.from_checkpoint(options.from_checkpoint)
        if self._is_first and options.from_savepoint is not None:
            settings.from_savepoint(options.from_savepoint, options.allow_non_restored_state)
        self._is_first = False

    def environment_made(self, environment: StreamExecutionEnvironment) -> None:
        """The app has made an environment."""

    def program_written(self, environment: StreamExecutionEnvironment, job_name: str) -> None:
        """The app executes: what was written down in the environment is about to become a job of this name."""

    def job_submitted(
        self, client: JobClient, *, keeps_checkpoints: bool, look: Look = tuple, rest_address: str | None = None
    ) -> None:
        """A job was accepted; its checkpoint folder outlives the environment, or does not.

        `look` asks Spark how far that work of the job is which takes long. Where to watch it is told once.
        """
        if rest_address is not None and rest_address not in self._told_addresses:
            self._told_addresses.add(rest_address)
            self.say(f"web page and REST interface at {rest_address}")

    def block_ended(self, environment: StreamExecutionEnvironment) -> None:
        """The `with` statement of an environment was left without an error; next the environment is closed."""


def _numbered(file: str, number: int) -> str:
    name, extension = os.path.splitext(file)
    return file if number == 1 else f"{name}-{number}{extension}"


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
