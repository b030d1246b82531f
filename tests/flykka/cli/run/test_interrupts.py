"""The effects of Ctrl-C, once or repeated, with and without a running job."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from flykka.cli.run.interrupts import Interrupts, StopRequest
from flykka.client.job_client import JobClient
from flykka.errors import JobCancelledError
from flykka.messages.control.job import CancelJob, JobResultSuccess, StopJob
from tests.flykka.client.one_job import JOB, KEPT, OneJob, one_job

STOPPING = "stopping: taking a last checkpoint"
AGAIN = {
    signal.SIGINT: " (Ctrl-C again cancels, and keeps the last completed checkpoint)",
    signal.SIGTERM: " (SIGTERM again cancels, and keeps the last completed checkpoint)",
    signal.SIGHUP: "",
}


@pytest.fixture(autouse=True)
def in_a_terminal() -> Iterator[None]:
    """Sets the default signal handlers, which nohup and background scripts disable."""
    handlers: dict[signal.Signals, Callable[..., object] | signal.Handlers] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def interrupt(request: pytest.FixtureRequest) -> signal.Signals:
    number: signal.Signals = request.param
    return number


def seconds() -> Iterator[float]:
    """A clock that advances by one second at each reading."""
    return map(float, count())


@pytest.fixture
def said() -> queue.SimpleQueue[str]:
    return queue.SimpleQueue()


@pytest.fixture
def job() -> Iterator[OneJob]:
    with one_job() as made:
        yield made


def running_clients(*clients: JobClient) -> list[JobClient]:
    return [client for client in clients if not client.done()]


def wait_after_signal(number: signal.Signals, client: JobClient) -> None:
    """Waits for the job in the thread that receives the signal."""
    signal.raise_signal(number)
    client.wait(timeout=10)


def test_one_ctrl_c_stops_the_job_and_its_waiters_continue(
    job: OneJob, said: queue.SimpleQueue[str], interrupt: signal.Signals
) -> None:
    with Interrupts(lambda: running_clients(job.client), said.put) as interrupts:
        signal.raise_signal(interrupt)
        result = job.client.wait(timeout=10)

    assert result.checkpoint_path == KEPT
    assert (said.get(timeout=10), interrupts.request) == (STOPPING + AGAIN[interrupt], StopRequest.STOP)
    assert [type(message) for message in job.received[1:]] == [StopJob]


def test_ctrl_c_stops_with_a_savepoint_if_a_directory_is_configured(said: queue.SimpleQueue[str]) -> None:
    with one_job(savepoint_directory="/savepoints") as job, Interrupts(lambda: running_clients(job.client), said.put):
        signal.raise_signal(signal.SIGINT)
        job.client.wait(timeout=10)

    stop = job.received[-1]
    assert isinstance(stop, StopJob)
    assert stop.savepoint_directory == "/savepoints"


def test_two_ctrl_c_cancel_the_job_even_if_the_stop_has_failed(said: queue.SimpleQueue[str]) -> None:
    clock = seconds().__next__
    with one_job(stops=False) as job, Interrupts(lambda: running_clients(job.client), said.put, clock) as interrupts:
        signal.raise_signal(signal.SIGINT)
        lines = [said.get(timeout=10), said.get(timeout=10)]
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(JobCancelledError):
            job.client.wait(timeout=10)

    assert lines == [
        STOPPING + AGAIN[signal.SIGINT],
        "not stopped, so it keeps running (Ctrl-C again cancels, and keeps the last completed checkpoint):"
        " job 'delays' (job_1) was not stopped: boom",
    ]
    assert (said.get(timeout=10), interrupts.request) == ("cancelling", StopRequest.CANCEL)
    assert [type(message) for message in job.received[1:]] == [StopJob, CancelJob]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_run_without_a_prompt_ends_despite_an_unstoppable_job(
    said: queue.SimpleQueue[str], number: signal.Signals
) -> None:
    with one_job(stops=False) as job, Interrupts(lambda: running_clients(job.client), said.put) as interrupts:
        with pytest.raises(KeyboardInterrupt):
            wait_after_signal(number, job.client)
        lines = [said.get(timeout=10), said.get(timeout=10)]

    assert lines == [
        STOPPING + AGAIN[number],
        "not stopped; ending it without a last checkpoint: job 'delays' (job_1) was not stopped: boom",
    ]
    assert interrupts.request is StopRequest.STOP
    assert [type(message) for message in job.received[1:]] == [StopJob]


def test_an_unstoppable_job_waits_until_others_have_stopped(job: OneJob, said: queue.SimpleQueue[str]) -> None:
    with (
        one_job(stops=False) as other,
        Interrupts(lambda: running_clients(other.client, job.client), said.put),
        pytest.raises(KeyboardInterrupt),
    ):
        wait_after_signal(signal.SIGTERM, other.client)

    assert job.client.wait(timeout=10).checkpoint_path == KEPT


def test_a_lost_terminal_stops_the_job_and_never_cancels_it(job: OneJob, said: queue.SimpleQueue[str]) -> None:
    clock = seconds().__next__
    with Interrupts(lambda: [job.client], said.put, clock) as interrupts:
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        first = said.get(timeout=10)

    assert (first, interrupts.request) == (STOPPING, StopRequest.STOP)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_to_the_process_and_its_group_counts_once(
    job: OneJob, said: queue.SimpleQueue[str], first: signal.Signals, second: signal.Signals
) -> None:
    with Interrupts(lambda: [job.client], said.put, lambda: 7.0) as interrupts:
        signal.raise_signal(first)
        signal.raise_signal(second)

    assert interrupts.request is StopRequest.STOP


def test_a_job_in_submission_is_stopped_like_the_others(job: OneJob, said: queue.SimpleQueue[str]) -> None:
    with one_job() as other, Interrupts(lambda: running_clients(other.client), said.put) as interrupts:
        interrupts.apply_to(other.client)
        signal.raise_signal(signal.SIGINT)
        other.client.wait(timeout=10)
        interrupts.apply_to(job.client)
        result = job.client.wait(timeout=10)

    assert [type(message) for message in other.received[1:]] == [StopJob]
    assert result.checkpoint_path == KEPT


def test_three_ctrl_c_interrupt_the_program(job: OneJob, said: queue.SimpleQueue[str]) -> None:
    with Interrupts(lambda: [job.client], said.put):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_one_ctrl_c_interrupts_a_program_without_jobs(
    job: OneJob, said: queue.SimpleQueue[str], interrupt: signal.Signals
) -> None:
    job.publish(JobResultSuccess(job_id=JOB))
    job.client.wait(timeout=10)

    with Interrupts(lambda: running_clients(job.client), said.put) as interrupts, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(interrupt)

    assert interrupts.request is StopRequest.NONE
    assert said.empty()


def test_former_signal_handlers_are_restored(said: queue.SimpleQueue[str], interrupt: signal.Signals) -> None:
    before = signal.getsignal(interrupt)

    with Interrupts(list, said.put):
        assert signal.getsignal(interrupt) is not before

    assert signal.getsignal(interrupt) is before


def test_a_signal_handler_installed_later_is_replaced(said: queue.SimpleQueue[str]) -> None:
    with Interrupts(list, said.put) as interrupts:
        ours = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupts.install_handlers()
        again = signal.getsignal(signal.SIGINT)

    assert again == ours


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGHUP], ids=["in the background", "nohup"])
def test_an_ignored_signal_stays_ignored(job: OneJob, said: queue.SimpleQueue[str], ignored: signal.Signals) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        with Interrupts(lambda: [job.client], said.put) as interrupts:
            signal.raise_signal(ignored)
    finally:
        signal.signal(ignored, before)

    assert interrupts.request is StopRequest.NONE
