"""Cells are run again: the job that a cell submits takes the place of the one that it submitted before.

Only where IPython runs. In a plain program two jobs of one name are two jobs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from flykka.errors import JobCancellationError, JobExecutionError, JobStoppingError
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobType
from flykka.notebook.shell import interactive_shell

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.job_settings import JobSettings
    from flykka.client.job_client import JobClient

ENDING_TIMEOUT = 60.0
"""Seconds that a job has to stop, and then to be cancelled: a stage of Spark's may not hear of it at once."""

# By the name of the job: the newest of that name, and the environment it was submitted in. Where the cell has bound the
# environment's name anew, nobody else knows it any more, and its cluster still runs.
_newest: dict[str, tuple[JobClient, StreamExecutionEnvironment]] = {}


def keep_checkpoints(settings: JobSettings) -> None:
    """Have jobs of IPython that are cancelled keep their checkpoints, unless the user says otherwise.

    A job that cannot be stopped is cancelled when its cell is run again, and the next one is to continue from there.
    """
    if interactive_shell() is not None:
        settings.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)


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
