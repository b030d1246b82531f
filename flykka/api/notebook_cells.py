"""Cells of a notebook that are run again: a cell writes its operators down once, and its job replaces its earlier one.

Only where IPython runs. In a plain program two jobs of one name are two jobs.
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
"""Seconds that a job has to stop, and then to be cancelled: a stage of Spark's may not hear of it at once."""

Written = dict[str, tuple["Transformation", ...]]
"""Sources and jobs of the last run of each cell, by the id of the cell."""


class Cells:
    """Follows the cells of a shell, and what they write down in environments.

    Only cells with an id are followed: JupyterLab, Notebook 7 and VS Code give them one.
    """

    def __init__(self, shell: Any) -> None:
        self._environments: WeakSet[StreamExecutionEnvironment] = WeakSet()
        self._written: WeakKeyDictionary[Program, Written] = WeakKeyDictionary()
        self._before: dict[Program, frozenset[Transformation]] = {}
        self._cell: str | None = None
        shell.events.register("pre_run_cell", self.begin_cell)
        shell.events.register("post_run_cell", self.end_cell)

    def add_environment(self, environment: StreamExecutionEnvironment) -> None:
        """Take an environment in."""
        self._environments.add(environment)

    def begin_cell(self, execution: Any) -> None:
        """A cell begins: what its last run has written down is taken back."""
        self._cell = execution.cell_id
        for program in self._programs():
            if self._cell is not None:
                program.take_back(self._written.get(program, {}).pop(self._cell, ()))
        self._before = {program: frozenset(program.transformations) for program in self._programs()}

    def end_cell(self, _: object) -> None:
        """A cell has ended: what is in the programs now and was not before is its work."""
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
    """From now on a cell that is run again takes back what it has written down in this environment; in IPython only."""
    global _cells
    shell = interactive_shell()
    if shell is None:
        return
    if _cells is None:
        _cells = Cells(shell)
    _cells.add_environment(environment)


# By the name of the job: the newest of that name, and the environment it was submitted in. Where the cell has bound the
# environment's name again, this is the only reference to it, and its cluster still runs.
_newest: dict[str, tuple[JobClient, StreamExecutionEnvironment]] = {}


def keep_checkpoints(environment: StreamExecutionEnvironment) -> None:
    """Have jobs of IPython that are cancelled keep their checkpoints, in a temporary folder too.

    A job that cannot be stopped is cancelled when its cell is run again, and the next one is to continue from there.
    """
    if interactive_shell() is not None:
        environment.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)


def remember_job(job: JobClient, environment: StreamExecutionEnvironment) -> None:
    """A job was submitted; in a plain program that is of no interest."""
    if interactive_shell() is not None:
        _newest[job.job_name] = job, environment


def end_earlier_job(name: str) -> StreamExecutionEnvironment | None:
    """End the job of this name where one still runs, as `end_job` does; returns its environment."""
    if name not in _newest:
        return None
    job, environment = _newest[name]
    if not job.done():
        end_job(job, ENDING_TIMEOUT)
    return environment


def end_job(job: JobClient, timeout: float) -> None:
    """Stop a job with a last checkpoint, from which the next one continues; cancel it where that cannot be.

    Each has `timeout` seconds.

    Raises:
        TimeoutError: it has not ended in time.
    """
    said = f"job {job.job_name!r} ({job.job_id}) still ran"
    if job.job_graph.job_type is JobType.STREAMING:
        print(f"{said}: stopping it with a checkpoint", flush=True)
        try:
            job.stop(timeout)
        except (JobStoppingError, TimeoutError) as refusal:
            if job.done():
                return
            print(f"{refusal}; cancelling it", flush=True)
        else:
            return
    else:
        print(f"{said}: cancelling it", flush=True)
    # It may have ended just now.
    with suppress(JobCancellationError):
        job.cancel(timeout)
    with suppress(JobExecutionError):
        job.wait(timeout)
