"""`flykka run`: an app from its first line to the exit code. With it everything is loaded, Spark included."""

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
from flykka.cli.run.interrupts import Interrupts, Wish
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


_STDERR = 2


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The end of an app: its exit code, and the last text for stderr."""

    code: int
    last_words: str = ""


def run(app: App, options: LaunchOptions, *, continue_with: Continue, verbose: bool) -> int:
    """Run the app, show its jobs, say what came of it; the exit code."""
    output = RichConsole(force_jupyter=False)
    app_run = AppRun(options, output, continue_with)
    with lasting_output(app_run.interrupts.asked):
        outcome = _outcome(app, app_run, output, verbose=verbose)
        # Only now: whatever was to be said by others has been said.
        if outcome.last_words:
            print(outcome.last_words, file=sys.stderr, flush=True)
    return outcome.code


def _outcome(app: App, app_run: AppRun, output: RichConsole, *, verbose: bool) -> _Outcome:
    with ExitStack() as last_first:
        if can_be_live(output) and sys.stderr.isatty():
            last_first.enter_context(diverted_stderr(app_run.say))
        last_first.enter_context(launched(app_run))
        last_first.enter_context(app_run.interrupts)
        last_first.callback(app_run.close)
        outcome = _verdict(app, app_run, _raised(app, app_run), verbose=verbose)
        # What was stopped is gone on with by the same command.
        app_run.has_ended_in_order = outcome.code == OK and app_run.interrupts.wish is Wish.GO_ON
    return outcome


def _raised(app: App, app_run: AppRun) -> BaseException | None:
    """Return the error of the app when all of its jobs have ended, unless one of them is the cause."""
    left: SystemExit | None = None
    try:
        try:
            app.run()
        except SystemExit as said:
            left = said
        if left is None or _left_with(left)[0] == OK:
            app_run.wait()
    except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the app's, and told with the exit code
        return raised
    return left


def _verdict(app: App, app_run: AppRun, raised: BaseException | None, *, verbose: bool) -> _Outcome:
    wish = app_run.interrupts.wish
    match raised:
        case NoMoreJobsError():
            return _Outcome(OK if wish is Wish.STOP else CANCELLED)
        case KeyboardInterrupt():
            return _Outcome(CANCELLED, "flykka: interrupted")
        case JobExecutionError() if wish is Wish.CANCEL:
            return _Outcome(CANCELLED)
        case None | SystemExit():
            return _ended(app, app_run, raised, verbose=verbose)
        case _:
            return _Outcome(FAILED, _explained(app, raised, verbose=verbose))


def _ended(app: App, app_run: AppRun, left_with: SystemExit | None, *, verbose: bool) -> _Outcome:
    """The app has come to its end by itself: what did its jobs come to?"""
    if app_run.interrupts.wish is Wish.CANCEL:
        return _Outcome(CANCELLED)
    code, words = _left_with(left_with)
    if code != OK:
        return _Outcome(code, words)
    if failures := app_run.failures():
        return _Outcome(FAILED, "\n".join(_explained(app, failure, verbose=verbose) for failure in failures))
    if app_run.has_jobs() or not app.needs_jobs:
        return _Outcome(OK)
    if forgotten := app_run.forgotten_operators():
        return _Outcome(FAILED, f"flykka: {app.path} defined {forgotten} operators but never called execute()")
    if left_with is not None:
        return _Outcome(OK)
    return _Outcome(
        FAILED,
        f"flykka: {app.path} made no job: an app gets an environment from"
        " StreamExecutionEnvironment.get_execution_environment(), defines operators in it and calls its execute()",
    )


def _explained(app: App, raised: BaseException, *, verbose: bool) -> str:
    """The text of an error; with `verbose`, behind the stack of where it happened."""
    there = raised.cause.stack_trace if verbose and isinstance(raised, JobExecutionError) else ""
    return "\n".join(text for text in (there.rstrip(), app.explained(raised, whole=verbose)) if text)


def _left_with(left_with: SystemExit | None) -> tuple[int, str]:
    """As Python does it: a number is the code, nothing is success, and anything else is said, with code 1."""
    match None if left_with is None else left_with.code:
        case None:
            return OK, ""
        case int(code):
            return code, ""
        case said:
            return FAILED, str(said)


@contextmanager
def diverted_stderr(say: Callable[[str], object]) -> Iterator[None]:
    """Hand every line that this process or a child writes on stderr to `say`, until the end of the `with`.

    A child that outlives it goes on writing into the pipe, which is not read then: it gets an error, and no signal.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    woken, wake = os.pipe()
    pump = threading.Thread(target=_pump, args=(reading, woken, say), name="stderr-lines", daemon=True)
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


def _pump(reading: int, woken: int, say: Callable[[str], object]) -> None:
    rest = b""
    ended = False
    while not ended:
        ready, _, _ = select.select([reading, woken], [], [])
        # What was written before the end is still said.
        ended = reading not in ready
        read = b"" if ended else os.read(reading, 65_536)
        ended = ended or not read
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))
    if rest:
        say(rest.decode(errors="replace"))
