"""Cells are run again: the job that a cell submits takes the place of the one that it submitted before.

Only where IPython runs. In a plain program two jobs of one name are two jobs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from flykka.errors import JobCancellationError, JobExecutionError
from flykka.notebook.shell import interactive_shell

if TYPE_CHECKING:
    from flykka.environment import StreamExecutionEnvironment
    from flykka.jobs.job_client import JobClient

ENDING_TIMEOUT = 60.0
"""Seconds that a job which is cancelled has to end: a stage of Spark's may not hear of it at once."""

# By the name of the job: the newest of that name, and the environment it was submitted in. Where the cell has bound the
# environment's name anew, nobody else knows it any more, and its cluster still runs.
_newest: dict[str, tuple[JobClient, StreamExecutionEnvironment]] = {}


def remember_job(job: JobClient, environment: StreamExecutionEnvironment) -> None:
    """A job was submitted; in a plain program that is of no interest."""
    if interactive_shell() is not None:
        _newest[job.job_name] = job, environment


def end_earlier_job(name: str) -> StreamExecutionEnvironment | None:
    """Cancel the job of this name where one still runs, and wait for its end; returns its environment.

    Raises:
        TimeoutError: it has not ended in time.
    """
    if name not in _newest:
        return None
    job, environment = _newest[name]
    if not job.done():
        print(f"job {name!r} ({job.job_id}) still ran: it is cancelled and replaced by the new one")
        # It may have ended just now.
        with suppress(JobCancellationError):
            job.cancel()
        with suppress(JobExecutionError):
            job.wait(ENDING_TIMEOUT)
    return environment
