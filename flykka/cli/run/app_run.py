"""A run of an app by `flykka run`: its environments and jobs, as they come, and what is left of them at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from rich.console import Console as RichConsole

from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.api.configuration.option import Values
from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.job_settings import JobSettings
from flykka.api.launch import Launch, LaunchOptions, Look
from flykka.cli.run.interrupts import Interrupts, Wish
from flykka.client.job_client import JobClient
from flykka.client.start_settings import AUTO, StartMode
from flykka.console.elapsed import spark_start
from flykka.console.job_console import JobConsole
from flykka.errors import FlykkaError, JobExecutionError
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.messages.wire.ids import JobId


class Continue(Protocol):
    """Makes the command line that goes on where a job was stopped, with these options beside those of this run."""

    def __call__(self, *start: str) -> str:
        """The command line."""


class NoMoreJobsError(KeyboardInterrupt):
    """The app wants to run another job, but it was told to stop."""


class AppRun(Launch):
    """Shows every job, stops them when interrupted, and waits for those that the app does not wait for."""

    shows_jobs = True
    takes_options = True

    def __init__(self, options: LaunchOptions, output: RichConsole, continue_with: Continue) -> None:
        super().__init__(options)
        self._output = output
        self._continue_with = continue_with
        self._console = JobConsole(output, self._epilogue)
        self.interrupts = Interrupts(self.running, self._console.say)
        self._clients: list[JobClient] = []
        self._environments: list[StreamExecutionEnvironment] = []
        self._kept_for_long: set[JobId] = set()
        self._app_names_start = False
        """True if the app itself says where a job starts: said again, it would start there again."""
        self.has_ended_in_order = False
        """True if there is nothing that a rerun would have to go on with."""

    def overridden(self, settings: JobSettings, overrides: Values) -> JobSettings:
        """Override settings. Raises `NoMoreJobsError` after an interrupt: a stopped app runs no further job."""
        if self.interrupts.wish is not Wish.GO_ON:
            raise NoMoreJobsError
        self._app_names_start = self._app_names_start or settings.start.mode is not StartMode.AUTO
        return super().overridden(settings, overrides)

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        return spark_start(self._output, master)

    def environment_made(self, environment: StreamExecutionEnvironment) -> None:
        self._environments.append(environment)
        self.interrupts.install_handlers()
        wanted, there = self.options.values.get("master"), environment.spark.sparkContext.master
        if wanted not in (None, there):
            self._console.say(f"--master {wanted} has no effect: the app has started Spark itself, at {there}")

    def job_submitted(
        self,
        client: JobClient,
        *,
        keeps_checkpoints: bool,
        look: Look = tuple,
        rest_address: str | None = None,
        rest_token: str | None = None,
    ) -> None:
        super().job_submitted(
            client, keeps_checkpoints=keeps_checkpoints, rest_address=rest_address, rest_token=rest_token
        )
        self._clients.append(client)
        if keeps_checkpoints:
            self._kept_for_long.add(client.job_id)
        self.interrupts.install_handlers()
        self._console.show(client, look)
        self.interrupts.reach(client)

    def block_ended(self, environment: StreamExecutionEnvironment) -> None:
        """Let the jobs that the app did not wait for come to their end, before the environment goes."""
        for client in self.running():
            self._end_of(client)

    def say(self, text: str) -> None:
        """Print a line above whatever is live."""
        self._console.say(text)

    def running(self) -> list[JobClient]:
        return [client for client in self._clients if not client.done()]

    def has_jobs(self) -> bool:
        return bool(self._clients)

    def forgotten_operators(self) -> int:
        """The number of operators that were declared and that no job has run."""
        return sum(len(environment.pending_uids) for environment in self._environments)

    def failures(self) -> list[JobExecutionError]:
        ended = (client.exception() for client in self._clients if client.status is JobStatus.FAILED)
        return [failure for failure in ended if isinstance(failure, JobExecutionError)]

    def wait(self) -> None:
        """Wait until every job has ended, in whatever way."""
        for client in self._clients:
            self._end_of(client)

    def close(self) -> None:
        """Close every environment that is still open, and with it what still runs."""
        with ExitStack() as last_first:
            last_first.callback(self._console.close)
            for environment in self._environments:
                last_first.callback(environment.close if self.has_ended_in_order else environment.abandon)

    def _end_of(self, client: JobClient) -> None:
        try:
            client.wait()
        except FlykkaError:
            # It is told with the others, when the app has ended.
            return

    def _start_of_continuation(self, client: JobClient, kept: str) -> tuple[str, ...]:
        """Options to add to the same command for going on: none where the run is noted in a folder that stays."""
        if client.job_id not in self._kept_for_long:
            return ("--from-savepoint", kept)
        return ("--from-checkpoint", AUTO) if self._app_names_start else ()

    def _epilogue(self, client: JobClient) -> Iterator[tuple[str, str]]:
        kept = client.details.kept_checkpoint
        if kept is not None and (client.job_id in self._kept_for_long or is_savepoint(kept)):
            yield "kept", kept
            # What is said of a start holds for the first job only; the others go on by themselves.
            if client.job_id in self._kept_for_long or client is self._clients[0]:
                yield "continue", self._continue_with(*self._start_of_continuation(client, kept))
        elif kept is not None or (client.status is JobStatus.CANCELED and client.job_id not in self._kept_for_long):
            yield "kept", "nothing: checkpoints are removed with the app where no --checkpoint-dir is given"
        elif client.status is JobStatus.CANCELED:
            retention = client.job_graph.checkpointing.retention
            if retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
                yield "kept", "nothing: no checkpoint was complete, or they were deleted with --delete-checkpoints"
            else:
                yield "kept", "nothing: its retention deletes checkpoints (--retention retain-on-cancellation)"
        failure = client.exception()
        if isinstance(failure, JobExecutionError) and failure.flight_record is not None:
            yield "recorded", f"flykka trace show {failure.flight_record}"
