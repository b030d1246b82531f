"""Lets a notebook cell that is run again replace the operators and the job of its earlier run.

This applies only in IPython. In a plain program, two jobs with the same name are independent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from flykka.errors import JobCancellationError, JobExecutionError, JobStoppingError
from flykka.ipython import interactive_shell
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobType

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Transformation
    from flykka.client.job_client import JobClient

ENDING_TIMEOUT = 60.0
"""Seconds to wait for a job to stop, and then again for its cancellation, as a Spark stage may react late."""

Written = dict[str, tuple["Transformation", ...]]
"""The operators that the last run of each cell defined, by cell id."""


class Cells:
    """Records which cell of a shell defines which operators.

    Only cells with an id are recorded: JupyterLab, Notebook 7 and VS Code provide ids.
    """

    def __init__(self, shell: Any) -> None:
        self._environments: WeakSet[StreamExecutionEnvironment] = WeakSet()
        self._written: WeakKeyDictionary[Program, Written] = WeakKeyDictionary()
        self._before: dict[Program, frozenset[Transformation]] = {}
        self._cell: str | None = None
        shell.events.register("pre_run_cell", self.begin_cell)
        shell.events.register("post_run_cell", self.end_cell)

    def add_environment(self, environment: StreamExecutionEnvironment) -> None:
        self._environments.add(environment)

    def begin_cell(self, execution: Any) -> None:
        self._cell = execution.cell_id
        for program in self._programs():
            if self._cell is not None:
                program.remove_operators(self._written.get(program, {}).pop(self._cell, ()))
        self._before = {program: frozenset(program.transformations) for program in self._programs()}

    def end_cell(self, _: object) -> None:
        cell, self._cell = self._cell, None
        if cell is None:
            return
        for program in self._programs():
            before = self._before.get(program, frozenset())
            work = tuple(each for each in program.transformations if each not in before)
            self._written.setdefault(program, {})[cell] = work
        self._before = {}

    def _programs(self) -> list[Program]:
        return [environment.program for environment in self._environments]


_cells: Cells | None = None


def follow_cells(environment: StreamExecutionEnvironment) -> None:
    """In IPython, let a cell that is run again replace the operators that it defined in this environment."""
    global _cells
    shell = interactive_shell()
    if shell is None:
        return
    if _cells is None:
        _cells = Cells(shell)
    _cells.add_environment(environment)


# The newest job with each name, and the environment that submitted it. If the cell rebinds the variable of that
# environment, this is the only reference to it, and its cluster is still running.
_newest: dict[str, tuple[JobClient, StreamExecutionEnvironment]] = {}


def keep_checkpoints(environment: StreamExecutionEnvironment) -> None:
    """In IPython, retain the checkpoints of cancelled jobs, even in a temporary folder.

    A job that cannot be stopped is cancelled when its cell is run again, and the next job continues from its
    checkpoint.
    """
    if interactive_shell() is not None:
        environment.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)


def remember_job(job: JobClient, environment: StreamExecutionEnvironment) -> None:
    if interactive_shell() is not None:
        _newest[job.job_name] = job, environment


def end_earlier_job(name: str) -> StreamExecutionEnvironment | None:
    """End the running job with this name, as `end_job` does, and return its environment."""
    if name not in _newest:
        return None
    job, environment = _newest[name]
    if not job.done():
        end_job(job, ENDING_TIMEOUT)
    return environment


def end_job(job: JobClient, timeout: float) -> None:
    """Stop a job with a final checkpoint, from which the next job continues; cancel it if that fails.

    Stopping and cancelling may each take `timeout` seconds.

    Raises:
        TimeoutError: the job has not ended in time.
    """
    status = f"job {job.job_name!r} ({job.job_id}) still ran"
    if job.job_graph.job_type is JobType.STREAMING:
        print(f"{status}: stopping it with a checkpoint", flush=True)
        try:
            job.stop(timeout)
        except (JobStoppingError, TimeoutError) as refusal:
            if job.done():
                return
            print(f"{refusal}; cancelling it", flush=True)
        else:
            return
    else:
        print(f"{status}: cancelling it", flush=True)
    # The job may have ended meanwhile.
    with suppress(JobCancellationError):
        job.cancel(timeout)
    with suppress(JobExecutionError):
        job.wait(timeout)
