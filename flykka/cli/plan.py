"""`flykka plan`: an app up to its first `execute`, and what would be executed. With it everything is loaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

from flykka.cli.app import App
from flykka.cli.exit_codes import CANCELLED, FAILED, OK
from flykka.console.output import Output
from flykka.environment import StreamExecutionEnvironment
from flykka.launch import Launch, LaunchOptions, launched
from flykka.messages.job_graph import JobGraph
from flykka.plan.document import document
from flykka.plan.mermaid import mermaid
from flykka.plan.page import page
from flykka.plan.program_plan import ProgramPlan, program_plan
from flykka.plan.terminal import rendered


class ProgramAbort(BaseException):
    """The app has come to the end of what is of interest (Flink's ProgramAbortException).

    Not an Exception: an app that handles what its job may raise must not go on without the job.
    """


class PlanLaunch(Launch):
    """Lets an app write its first job down, and ends it there."""

    def __init__(self, options: LaunchOptions) -> None:
        super().__init__(options)
        self.made: tuple[ProgramPlan, JobGraph] | None = None
        self._environments: list[StreamExecutionEnvironment] = []

    def environment_made(self, environment: StreamExecutionEnvironment) -> None:
        """Note an environment, to close it if the app does not."""
        self._environments.append(environment)

    def program_written(self, environment: StreamExecutionEnvironment, job_name: str) -> None:
        """Make the graphs of the job. Raises `ProgramAbort`."""
        if self.made is None:
            job_graph = environment.get_job_graph(job_name)
            self.made = program_plan(environment.get_stream_graph(), job_graph), job_graph
        raise ProgramAbort

    def forgotten_operators(self) -> int:
        """How many operators were written down that no job was made of."""
        return sum(len(environment.pending_uids) for environment in self._environments)

    def close(self) -> None:
        """Close every environment that is still open."""
        with ExitStack() as last_first:
            for environment in self._environments:
                last_first.callback(environment.close)


def plan(
    app: App, options: LaunchOptions, *, graphs: Sequence[str], form: str, output: str | None, verbose: bool
) -> int:
    """Draw what the app's first job would be; the exit code."""
    launch = PlanLaunch(options)
    with ExitStack() as last_first:
        last_first.enter_context(launched(launch))
        last_first.callback(launch.close)
        try:
            with redirect_stdout(sys.stderr):
                app.run()
        except ProgramAbort:
            pass
        except KeyboardInterrupt:
            print("flykka: interrupted", file=sys.stderr)
            return CANCELLED
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the app's, and told with the exit code
            if launch.made is None:
                return _told(app, raised, verbose=verbose)
    if launch.made is None:
        return _no_job(app, launch.forgotten_operators())
    return _drawn(*launch.made, graphs=graphs, form=form, output=output)


def _told(app: App, raised: BaseException, *, verbose: bool) -> int:
    if isinstance(raised, SystemExit):
        text = raised.code if isinstance(raised.code, str) else f"flykka: {app.path} has ended before it executed a job"
        print(text, file=sys.stderr)
        return raised.code if isinstance(raised.code, int) and raised.code else FAILED
    print(app.explained(raised, whole=verbose), file=sys.stderr)
    return FAILED


def _no_job(app: App, forgotten: int) -> int:
    what = f"defined {forgotten} operators but never called execute()" if forgotten else "executes no job"
    print(f"flykka: {app.path} {what}: there is nothing to draw", file=sys.stderr)
    return FAILED


def _drawn(made: ProgramPlan, job_graph: JobGraph, *, graphs: Sequence[str], form: str, output: str | None) -> int:
    if form == "text" and output is None:
        Output().print(rendered(made, graphs))
        return OK
    text = _text(made, job_graph, graphs, form)
    if output is None:
        print(text, end="")
        return OK
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as refused:
        print(f"flykka: {output} cannot be written: {refused.strerror}", file=sys.stderr)
        return FAILED
    return OK


def _text(made: ProgramPlan, job_graph: JobGraph, graphs: Sequence[str], form: str) -> str:
    match form:
        case "json":
            return json.dumps(document(made, job_graph), indent=2) + "\n"
        case "mermaid":
            return mermaid(made, graphs)
        case "html":
            return page(made, graphs)
        case _:
            console = Output()
            with console.capture() as captured:
                console.print(rendered(made, graphs))
            return captured.get()
