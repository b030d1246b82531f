"""`flykka run`: runs an app from its first line to the exit code. Imports everything, including Spark."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console as RichConsole

from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.api.configuration.option import Values
from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.job_settings import JobSettings
from flykka.api.launch import Launch, LaunchOptions, Look, launched
from flykka.cli.exit_codes import CANCELLED, FAILED, OK
from flykka.cli.run.app import App
from flykka.cli.run.interrupts import Interrupts, StopRequest
from flykka.client.job_client import JobClient
from flykka.client.start_settings import AUTO, StartMode
from flykka.console.job_console import JobConsole
from flykka.console.live import can_be_live, spark_start
from flykka.console.output import lasting_output
from flykka.errors import FlykkaError, JobExecutionError
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.messages.wire.ids import JobId


class Continue(Protocol):
    """Returns the command line that continues stopped jobs: this run's command line with additional options."""

    def __call__(self, *start: str) -> str: ...


class NoMoreJobsError(KeyboardInterrupt):
    """The app executes another job after a request to stop."""


class AppRun(Launch):
    """Displays every job, stops the jobs on an interrupt, and waits for the jobs that the app does not wait for."""

    shows_jobs = True
    takes_options = True

    def __init__(self, options: LaunchOptions, output: RichConsole, continue_with: Continue) -> None:
        super().__init__(options)
        self._output = output
        self._continue_with = continue_with
        self._console = JobConsole(output, self._epilogue)
        self.interrupts = Interrupts(self.running, self._console.notify)
        self._clients: list[JobClient] = []
        self._environments: list[StreamExecutionEnvironment] = []
        self._kept_for_long: set[JobId] = set()
        self._app_names_start = False
        """True if the app sets from where a job starts, so that a repeated run would start there again."""
        self.has_ended_in_order = False
        """True if another run would have nothing to continue."""

    def overridden(self, settings: JobSettings, overrides: Values) -> JobSettings:
        """Override settings. Raises `NoMoreJobsError` after an interrupt, because a stopped app runs no more jobs."""
        if self.interrupts.request is not StopRequest.NONE:
            raise NoMoreJobsError
        self._app_names_start = self._app_names_start or settings.start.mode is not StartMode.AUTO
        return super().overridden(settings, overrides)

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        return spark_start(self._output, master)

    def environment_created(self, environment: StreamExecutionEnvironment) -> None:
        self._environments.append(environment)
        self.interrupts.install_handlers()
        requested, actual = self.options.values.get("master"), environment.spark.sparkContext.master
        if requested not in (None, actual):
            self._console.notify(f"--master {requested} has no effect: the app has started Spark itself, at {actual}")

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
        self.interrupts.apply_to(client)

    def block_ended(self, environment: StreamExecutionEnvironment) -> None:
        """Wait for the jobs that the app did not wait for, before the environment is closed."""
        for client in self.running():
            self._end_of(client)

    def notify(self, text: str) -> None:
        self._console.notify(text)

    def running(self) -> list[JobClient]:
        return [client for client in self._clients if not client.done()]

    def has_jobs(self) -> bool:
        return bool(self._clients)

    def forgotten_operators(self) -> int:
        """The number of operators that were defined but belong to no job."""
        return sum(len(environment.pending_uids) for environment in self._environments)

    def failures(self) -> list[JobExecutionError]:
        ended = (client.exception() for client in self._clients if client.status is JobStatus.FAILED)
        return [failure for failure in ended if isinstance(failure, JobExecutionError)]

    def wait(self) -> None:
        for client in self._clients:
            self._end_of(client)

    def close(self) -> None:
        with ExitStack() as last_first:
            last_first.callback(self._console.close)
            for environment in self._environments:
                last_first.callback(environment.close if self.has_ended_in_order else environment.abandon)

    def _end_of(self, client: JobClient) -> None:
        try:
            client.wait()
        except FlykkaError:
            # The failure is printed with all others when the app has ended.
            return

    def _start_of_continuation(self, client: JobClient, checkpoint: str) -> tuple[str, ...]:
        """Return the options that another run needs to continue. There are none if the run is recorded in a permanent
        folder.
        """
        if client.job_id not in self._kept_for_long:
            return ("--from-savepoint", checkpoint)
        return ("--from-checkpoint", AUTO) if self._app_names_start else ()

    def _epilogue(self, client: JobClient) -> Iterator[tuple[str, str]]:
        checkpoint = client.details.kept_checkpoint
        if checkpoint is not None and (client.job_id in self._kept_for_long or is_savepoint(checkpoint)):
            yield "kept", checkpoint
            # Start options apply to the first job only; the other jobs continue automatically.
            if client.job_id in self._kept_for_long or client is self._clients[0]:
                yield "continue", self._continue_with(*self._start_of_continuation(client, checkpoint))
        elif checkpoint is not None or (
            client.status is JobStatus.CANCELED and client.job_id not in self._kept_for_long
        ):
            yield "kept", "nothing: without --checkpoint-dir checkpoints are deleted when the app ends"
        elif client.status is JobStatus.CANCELED:
            retention = client.job_graph.checkpointing.retention
            if retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
                yield "kept", "nothing: no checkpoint was complete, or they were deleted with --delete-checkpoints"
            else:
                yield "kept", "nothing: its retention deletes checkpoints (--retention retain-on-cancellation)"
        failure = client.exception()
        if isinstance(failure, JobExecutionError) and failure.flight_record is not None:
            yield "recorded", f"flykka trace show {failure.flight_record}"


_STDERR = 2


@dataclass(frozen=True, slots=True)
class _Outcome:
    code: int
    last_words: str = ""


def run(app: App, options: LaunchOptions, *, continue_with: Continue, verbose: bool) -> int:
    output = RichConsole(force_jupyter=False)
    app_run = AppRun(options, output, continue_with)
    with lasting_output(app_run.interrupts.signalled):
        outcome = _outcome(app, app_run, output, verbose=verbose)
        # The last message is printed after all other output.
        if outcome.last_words:
            print(outcome.last_words, file=sys.stderr, flush=True)
    return outcome.code


def _outcome(app: App, app_run: AppRun, output: RichConsole, *, verbose: bool) -> _Outcome:
    with ExitStack() as last_first:
        if can_be_live(output) and sys.stderr.isatty():
            last_first.enter_context(diverted_stderr(app_run.notify))
        last_first.enter_context(launched(app_run))
        last_first.enter_context(app_run.interrupts)
        last_first.callback(app_run.close)
        outcome = _verdict(app, app_run, _raised(app, app_run), verbose=verbose)
        # The same command continues a stopped job.
        app_run.has_ended_in_order = outcome.code == OK and app_run.interrupts.request is StopRequest.NONE
    return outcome


def _raised(app: App, app_run: AppRun) -> BaseException | None:
    """Return the error of the app once all of its jobs have ended. Returns None if a job's failure is the cause."""
    exit_: SystemExit | None = None
    try:
        try:
            app.run()
        except SystemExit as exited:
            exit_ = exited
        if exit_ is None or _exit_status(exit_)[0] == OK:
            app_run.wait()
    except BaseException as raised:  # noqa: BLE001 - the app raised it: the exit code reports it
        return raised
    return exit_


def _verdict(app: App, app_run: AppRun, raised: BaseException | None, *, verbose: bool) -> _Outcome:
    match raised:
        case NoMoreJobsError():
            return _Outcome(CANCELLED if app_run.interrupts.has_cancelled else OK)
        case KeyboardInterrupt():
            return _Outcome(CANCELLED, "flykka: interrupted")
        case JobExecutionError() if app_run.interrupts.has_cancelled:
            return _Outcome(CANCELLED)
        case None | SystemExit():
            return _ended(app, app_run, raised, verbose=verbose)
        case _:
            return _Outcome(FAILED, _explained(app, raised, verbose=verbose))


def _ended(app: App, app_run: AppRun, exit_error: SystemExit | None, *, verbose: bool) -> _Outcome:
    if app_run.interrupts.has_cancelled:
        return _Outcome(CANCELLED)
    code, words = _exit_status(exit_error)
    if code != OK:
        return _Outcome(code, words)
    if failures := app_run.failures():
        return _Outcome(FAILED, "\n".join(_explained(app, failure, verbose=verbose) for failure in failures))
    if app_run.has_jobs() or not app.needs_jobs:
        return _Outcome(OK)
    if forgotten := app_run.forgotten_operators():
        return _Outcome(FAILED, f"flykka: {app.path} defined {forgotten} operators but never called execute()")
    if exit_error is not None:
        return _Outcome(OK)
    return _Outcome(
        FAILED,
        f"flykka: {app.path} created no job: an app gets an environment from"
        " StreamExecutionEnvironment.get_execution_environment(), defines operators in it and calls its execute()",
    )


def _explained(app: App, raised: BaseException, *, verbose: bool) -> str:
    """Return the text of an error, after its stack trace if `verbose`."""
    there = raised.cause.stack_trace if verbose and isinstance(raised, JobExecutionError) else ""
    return "\n".join(text for text in (there.rstrip(), app.explained(raised, whole=verbose)) if text)


def _exit_status(exit_error: SystemExit | None) -> tuple[int, str]:
    """Return the exit code and message as Python does: an int is the code, None is success, and other values mean code
    1.
    """
    match None if exit_error is None else exit_error.code:
        case None:
            return OK, ""
        case int(code):
            return code, ""
        case text:
            return FAILED, str(text)


@contextmanager
def diverted_stderr(notify: Callable[[str], object]) -> Iterator[None]:
    """Pass every line that this process or a child writes to stderr to `notify` during the `with` block.

    A child process that outlives the block writes into a pipe without a reader. It gets an error, but no signal.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    woken, wake = os.pipe()
    pump = threading.Thread(target=_pump, args=(reading, woken, notify), name="stderr-lines", daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(wake)
        pump.join()
        for descriptor in (original, reading, woken):
            os.close(descriptor)


def _pump(reading: int, woken: int, notify: Callable[[str], object]) -> None:
    rest = b""
    ended = False
    while not ended:
        ready, _, _ = select.select([reading, woken], [], [])
        # Output that was written before the end is still passed on.
        ended = reading not in ready
        read = b"" if ended else os.read(reading, 65_536)
        ended = ended or not read
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            notify(line.decode(errors="replace"))
    if rest:
        notify(rest.decode(errors="replace"))
