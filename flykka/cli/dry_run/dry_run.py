"""Runs an app up to its first `execute`, and returns the defined program without running a job."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack, redirect_stdout

from rich.console import Console as RichConsole

from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.launch import Launch, LaunchOptions, launched
from flykka.cli.exit_codes import CANCELLED, FAILED, fail
from flykka.cli.run.app import App
from flykka.console.live import spark_start
from flykka.messages.graph.job_graph import JobGraph
from flykka.spark_bridge.session.session import jobs_run
from flykka.views.plan.program_plan import ProgramPlan, program_plan


class ProgramAbort(BaseException):
    """Ends the app at its first `execute` (Flink's ProgramAbortException).

    This is not an Exception, so that an app that handles errors of its job does not continue without the job.
    """


class DryRun(Launch):
    only_plans = True

    def __init__(self, options: LaunchOptions) -> None:
        super().__init__(options)
        self.made: tuple[ProgramPlan, JobGraph] | None = None
        self.read_data = False
        """True if Spark has run jobs for the plan. Normally the definition of a program reads no rows."""
        self._jobs_before = jobs_run()
        self._environments: list[StreamExecutionEnvironment] = []

    def starting_spark(self, master: str) -> AbstractContextManager[None]:
        return spark_start(RichConsole(stderr=True, force_jupyter=False), master)

    def environment_created(self, environment: StreamExecutionEnvironment) -> None:
        self._environments.append(environment)

    def before_execute(self, environment: StreamExecutionEnvironment, job_name: str) -> None:
        if self.made is None:
            job_graph = environment.get_job_graph(job_name)
            plan = program_plan(environment.get_stream_graph(), job_graph, environment.task_manager_budget)
            self.made = plan, job_graph
            self.read_data = jobs_run() > self._jobs_before
        raise ProgramAbort

    def forgotten_operators(self) -> int:
        """The number of operators that were defined but belong to no job."""
        return sum(len(environment.pending_uids) for environment in self._environments)

    def close(self) -> None:
        with ExitStack() as last_first:
            for environment in self._environments:
                last_first.callback(environment.close)


def dry_run(app: App, launch: DryRun, *, verbose: bool) -> tuple[ProgramPlan, JobGraph] | int:
    """Return the plan and graph of the app's first job. Without a job, print the reason and return the exit code."""
    with ExitStack() as last_first:
        last_first.enter_context(launched(launch))
        last_first.callback(launch.close)
        try:
            with redirect_stdout(sys.stderr):
                app.run()
        except ProgramAbort:
            pass
        except KeyboardInterrupt:
            return fail("flykka: interrupted", CANCELLED)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the app's, and told with the exit code
            if launch.made is None:
                return _failed(app, raised, verbose=verbose)
    return launch.made or _no_job(app, launch.forgotten_operators())


def _failed(app: App, raised: BaseException, *, verbose: bool) -> int:
    if isinstance(raised, SystemExit):
        text = raised.code if isinstance(raised.code, str) else f"flykka: {app.path} has ended before it executed a job"
        print(text, file=sys.stderr)
        return raised.code if isinstance(raised.code, int) and raised.code else FAILED
    return fail(app.explained(raised, whole=verbose), FAILED)


def _no_job(app: App, forgotten: int) -> int:
    what = f"defined {forgotten} operators but never called execute()" if forgotten else "executes no job"
    return fail(f"flykka: {app.path} {what}: there is no job to inspect", FAILED)
