"""A kernel is killed or restarted: none of its processes remains, and its jobs can continue from their checkpoints."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.flykka.notebook.kernel import Kernel, wait_until
from tests.flykka.notebook.programs import (
    ENVIRONMENT,
    EVEN_NUMBERS,
    JOB,
    checkpoints,
    end_input,
    published_numbers,
    write_input,
)

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

# A function in Python also starts Python workers.
JOB_WITH_WORKERS = JOB.replace('.where("number % 2 = 0")', '.map_in_pandas(even, "number long")').replace(
    "numbers =",
    "def even(frames):\n    for frame in frames:\n        yield frame[frame.number % 2 == 0]\n\nnumbers =",
    1,
)


def run_job(kernel: Kernel, folder: Path) -> list[psutil.Process]:
    """Start a job, wait until a checkpoint covers its input, and return all processes of the job."""
    write_input(folder)
    kernel.run(f"folder = {str(folder)!r}\n" + ENVIRONMENT + JOB_WITH_WORKERS)
    wait_until(lambda: (folder / "output").exists() and any((folder / "output").glob("*.parquet")))
    return psutil.Process(kernel.pid).children(recursive=True)


def running_names(processes: list[psutil.Process]) -> list[str]:
    """Return the names of the running processes, without zombies and without processes that reuse an id."""
    return [one.name() for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_a_killed_kernel_leaves_no_process(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        processes = run_job(kernel, tmp_path)
        names = running_names(processes)

        kernel.kill()
        wait_until(lambda: not running_names(processes))

    assert "java" in names
    assert len(names) > 1
    assert checkpoints(tmp_path)


def test_a_restarted_kernel_continues_from_the_last_checkpoint(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        processes = run_job(kernel, tmp_path)

        kernel.restart()
        wait_until(lambda: not running_names(processes))
        kernel.run(f"folder = {str(tmp_path)!r}\n" + ENVIRONMENT + "env.from_checkpoint('latest')\n" + JOB_WITH_WORKERS)
        end_input(tmp_path)
        kernel.run("await job")

    assert published_numbers(tmp_path) == EVEN_NUMBERS
