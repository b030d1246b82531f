"""Jobs in a real Jupyter kernel do not block the kernel, and cells can be interrupted and run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from tests.flykka.notebook.kernel import Kernel, wait_until
from tests.flykka.notebook.programs import (
    ENVIRONMENT,
    EVEN_NUMBERS,
    JOB,
    UNNAMED,
    checkpoints,
    end_input,
    published_numbers,
    write_input,
)

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

THREADS = "import threading; print(len([t for t in threading.enumerate() if 'flykka' in t.name]))"

WAIT_FOR_ROWS = """
import time
while not any(vertex.rows_published for vertex in job.details.vertices):
    time.sleep(0.02)
"""


# Each cell prints a line when it starts to wait, because an earlier interrupt would hit other code.
BLOCKING = """
import sys, threading, time, traceback

def tell():
    main = threading.main_thread().ident
    while "in _acquire" not in "".join(traceback.format_stack(sys._current_frames()[main])):
        time.sleep(0.01)
    print("waiting", flush=True)

threading.Thread(target=tell).start()
job.wait()
"""
AWAITING = """
import asyncio
asyncio.get_running_loop().call_soon(lambda: print("waiting", flush=True))
await job
"""


@pytest.fixture
def cells_folder(kernel: Kernel, tmp_path: Path) -> Iterator[Path]:
    """A folder with input for the cells of a test. Running jobs are ended after the test."""
    write_input(tmp_path)
    kernel.run(f"folder = {str(tmp_path)!r}")
    yield tmp_path
    kernel.run("env.close()")


def test_the_kernel_is_free_while_a_job_runs_and_can_be_awaited(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT + JOB)
    free = kernel.run("job.status")
    end_input(cells_folder)
    awaited = kernel.run("(await job).job_name")

    assert "RUNNING" in free.text or "CREATED" in free.text
    assert awaited.text == "'even numbers'"
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_a_job_is_displayed_live_and_its_last_picture_stays(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT + JOB)
    cell = kernel.run("job")
    (place,) = cell.display_ids
    while not kernel.updates[place]:
        kernel.listen()
    end_input(cells_folder)
    kernel.run("await job")

    times = [update.at for update in kernel.updates[place]]
    last = kernel.updates[place][-1].data
    assert cell.shown[0].keys() == {"text/html", "text/plain"}
    assert last["text/plain"].startswith("job 'even numbers' FINISHED")
    assert "FINISHED" in last["text/html"]
    assert len(times) < 2 + 4 * (times[-1] - times[0] + 1)


def test_a_failed_job_shows_its_cause(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT + "from flykka import RestartStrategies\n")
    kernel.run("env.set_restart_strategy(RestartStrategies.no_restart())\n")
    (cells_folder / "input" / "numbers.parquet").write_bytes(b"no parquet")

    kernel.run(JOB)
    failed = kernel.wait(kernel.start("await job"))
    cell = kernel.run("job")

    assert failed.error is not None
    assert failed.error[0] == "JobExecutionError"
    assert "FAILED" in cell.text
    assert "numbers.parquet" in cell.shown[0]["text/html"]
    assert "skipping hidden" in failed.traceback
    assert kernel.run("job.exception()").text.startswith("JobExecutionError: job 'even numbers' failed: ")


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        pytest.param(BLOCKING, "KeyboardInterrupt", id="wait"),
        pytest.param(AWAITING, "CancelledError", id="await", marks=pytest.mark.long),
    ],
)
def test_the_stop_button_ends_the_wait_but_not_the_job(
    kernel: Kernel, cells_folder: Path, wait: str, error: str
) -> None:
    kernel.run(ENVIRONMENT + JOB)

    waiting = kernel.start(wait)
    while "waiting" not in waiting.printed:
        kernel.listen()
    kernel.interrupt()
    kernel.wait(waiting)
    end_input(cells_folder)
    kernel.run("await job")

    assert waiting.error is not None
    assert waiting.error[0] == error
    assert "job 'even numbers' keeps running" in waiting.traceback
    assert kernel.run("len(job.details.restarts)").text == "0"
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_a_job_interrupted_during_execute_can_be_continued_in_the_next_cell(kernel: Kernel, cells_folder: Path) -> None:
    executing = kernel.start(ENVIRONMENT + JOB.replace("job = env.execute_async", "env.execute"))
    wait_until(lambda: checkpoints(cells_folder))
    kernel.interrupt()
    kernel.wait(executing)
    again = kernel.run(ENVIRONMENT + "env.from_checkpoint('latest')\n" + JOB)
    end_input(cells_folder)
    kernel.run("await job")

    assert executing.error is not None
    assert "still ran: stopping it with a checkpoint" in again.printed
    assert published_numbers(cells_folder) == EVEN_NUMBERS


@pytest.mark.parametrize(
    ("environment", "with_environment"),
    [
        pytest.param(ENVIRONMENT, False, id="named checkpoints, in one environment", marks=pytest.mark.long),
        pytest.param(UNNAMED, True, id="temporary checkpoints, with its environment"),
        pytest.param(ENVIRONMENT, True, id="named checkpoints, with its environment", marks=pytest.mark.long),
        pytest.param(UNNAMED, False, id="temporary checkpoints, in one environment", marks=pytest.mark.long),
    ],
)
def test_a_rerun_cell_continues_its_job_without_leftovers(
    kernel: Kernel, cells_folder: Path, environment: str, with_environment: bool
) -> None:
    cell = environment + JOB if with_environment else JOB
    kernel.run(environment + JOB)
    kernel.run(WAIT_FOR_ROWS)
    kernel.run(cell)
    threads = int(kernel.run(THREADS).printed)

    printed = [kernel.run("old = job\n" + cell + "print(old.done(), job.done())").printed for _ in range(3)]
    after = int(kernel.run(THREADS).printed)
    end_input(cells_folder)
    kernel.run("await job")

    assert all("still ran" in text and text.endswith("True False\n") for text in printed)
    assert all("continuing 'even numbers' from checkpoint" in text for text in printed)
    assert after <= threads + 2
    assert published_numbers(cells_folder) == EVEN_NUMBERS


@pytest.mark.parametrize(
    "environment",
    [ENVIRONMENT, pytest.param(UNNAMED, marks=pytest.mark.long)],
    ids=["named checkpoints", "temporary checkpoints"],
)
def test_a_finished_job_publishes_no_row_twice_if_its_cell_is_rerun(
    kernel: Kernel, cells_folder: Path, environment: str
) -> None:
    end_input(cells_folder)
    kernel.run(environment)
    kernel.run(JOB + "await job", cell_id="job")

    refused = kernel.wait(kernel.start(JOB, cell_id="job"))
    kernel.run("env.overwrite(f'{folder}/output')\n" + JOB + "await job", cell_id="job")
    kernel.run(JOB.replace("/output", "/elsewhere") + "await job", cell_id="job")

    assert refused.error is not None
    assert refused.error[0] == "DuplicateJobSubmissionError"
    assert "has already reached the end of its input" in refused.error[1]
    assert f"env.overwrite('{cells_folder}/output')" in refused.error[1]
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_jobs_of_one_name_in_one_cell_follow_each_other(kernel: Kernel, cells_folder: Path) -> None:
    end_input(cells_folder)
    kernel.run(UNNAMED + "for _ in range(2):\n" + indent(JOB + "await job", "    "))

    assert published_numbers(cells_folder) == sorted(EVEN_NUMBERS * 2)


@pytest.mark.long
def test_a_corrected_cell_continues_an_unstoppable_job_from_its_last_checkpoint(
    kernel: Kernel, cells_folder: Path
) -> None:
    kernel.run(UNNAMED + JOB)
    kernel.run(WAIT_FOR_ROWS)
    (cells_folder / "input" / "broken.parquet").write_bytes(b"no parquet")
    kernel.run("import time\nwhile not job.details.restarts: time.sleep(0.05)", patience=120)
    (cells_folder / "input" / "broken.parquet").unlink()

    again = kernel.run(JOB)
    end_input(cells_folder)
    kernel.run("await job")

    assert "continuing 'even numbers' from checkpoint" in again.printed
    assert published_numbers(cells_folder) == EVEN_NUMBERS


@pytest.mark.long
def test_a_cancelled_job_continues_when_its_cell_is_rerun(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(UNNAMED + JOB)
    kernel.run(WAIT_FOR_ROWS)
    kernel.run("job.cancel()\nwhile not job.done(): time.sleep(0.02)")

    again = kernel.run(UNNAMED + JOB)
    end_input(cells_folder)
    kernel.run("await job")

    assert "continuing 'even numbers' from checkpoint" in again.printed
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_a_cell_that_failed_midway_can_be_corrected_and_rerun(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT, cell_id="environment")
    failed = kernel.wait(kernel.start(JOB.replace("number % 2", "nombre % 2"), cell_id="job"))
    kernel.run(JOB, cell_id="job")
    end_input(cells_folder)
    kernel.run("await job")

    assert failed.error is not None
    assert failed.error[0] == "StreamTypeError"
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_the_checkpoints_of_a_job_are_a_table(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT + JOB)
    end_input(cells_folder)
    kernel.run("await job")

    table = kernel.run("print(job.checkpoints.to_csv(index=False))").printed.splitlines()
    assert table[0] == "checkpoint_id,status,triggered,ended,duration_ms,size_bytes,incremental_bytes,path,reason"
    assert ",COMPLETED," in table[-2]


def test_a_users_session_has_no_interrupt_handler_while_flykka_works_in_it(kernel: Kernel, cells_folder: Path) -> None:
    cell = """
import signal
from pyspark.sql import SparkSession
theirs = signal.getsignal(signal.SIGINT)
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark = signal.getsignal(signal.SIGINT)
"""
    kernel.run("env.close() if 'env' in globals() else None")
    handlers = kernel.run(cell + ENVIRONMENT + "print(spark is not theirs, signal.getsignal(signal.SIGINT) is theirs)")
    kernel.run("env.close()\nsession.stop()")

    assert "True True" in handlers.printed


@pytest.mark.long
def test_the_last_picture_summarises_a_job_and_why_omits_recovered_failures(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT.replace('"local[1]"', '"local[1]", task_managers=2, slots_per_task_manager=1'))
    kernel.run(JOB)
    (place,) = kernel.run("job").display_ids
    wait_until(lambda: checkpoints(cells_folder))
    kernel.run("env.cluster.kill_task_manager(job.why().attempts[0].where)")
    kernel.run("import time\nwhile not job.details.restarts: time.sleep(0.01)")
    end_input(cells_folder)
    kernel.run("await job")
    why = kernel.run("job.why()")

    last = kernel.updates[place][-1].data["text/html"]
    assert "<svg" in last
    assert "time of checkpoints" in last
    assert "into the run" in last
    assert "FINISHED" in why.text
    assert "failure" not in why.text
    assert published_numbers(cells_folder) == EVEN_NUMBERS


def test_streams_and_environments_have_displays_and_a_stream_a_preview(kernel: Kernel, cells_folder: Path) -> None:
    kernel.run(ENVIRONMENT)
    environment = kernel.run("env")
    stream = kernel.run("even = env.from_source(FileSource.parquet(f'{folder}/input')).where('number % 2 = 0')\neven")
    previewed = kernel.run("even.preview(3)")

    assert "from_source(...) begins a stream" in environment.shown[0]["text/html"]
    assert "where(number % 2 = 0)" in stream.shown[0]["text/html"]
    assert previewed.text.split() == ["number", "0", "0", "1", "2", "2", "4"]
