"""What a client asks for a savepoint, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from flykka.errors import JobStoppingError, SavepointError
from flykka.jobs.job_client import JobClient
from flykka.messages.failure import SerializedThrowable
from flykka.messages.job import (
    JobResultSuccess,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.flykka.jobs.job_desk import GRAPH, JOB

PATH = "/savepoints/savepoint-job-1"
DISK_FULL = SerializedThrowable(type_name="SavepointError", message="the disk is full")


class SavepointDesk(Actor):
    """Stands for the JobManager: takes every savepoint, or none."""

    def __init__(self, asked: list[Message], refusal: SerializedThrowable | None, *, silent: bool) -> None:
        self._asked = asked
        self._refusal = refusal
        self._silent = silent

    def handle_message(self, message: Message) -> None:
        self._asked.append(message)
        match message:
            case TriggerSavepoint(client=client) if not self._silent:
                taken = TriggerSavepointSuccess(job_id=JOB, client=client, savepoint_path=PATH)
                failed = TriggerSavepointFailure(job_id=JOB, client=client, cause=DISK_FULL)
                client.tell(taken if self._refusal is None else failed)
            case StopJob(client=client):
                stopped = StoppingSuccess(job_id=JOB, checkpoint_path=PATH)
                client.tell(stopped if self._refusal is None else StoppingFailure(job_id=JOB, cause=DISK_FULL))
                submitted = self._asked[0]
                assert isinstance(submitted, SubmitJob)
                submitted.client.tell(JobResultSuccess(job_id=JOB, checkpoint_path=PATH))
            case _:
                pass


@dataclass
class Cluster:
    directory: str | None = None
    refusal: SerializedThrowable | None = None
    silent: bool = False
    system: SeededSystem = field(default_factory=SeededSystem)
    asked: list[Message] = field(default_factory=list)

    def submit(self) -> JobClient:
        desk = Props(SavepointDesk, self.asked, self.refusal, silent=self.silent)
        checkpointing = replace(GRAPH.checkpointing, savepoint_directory=self.directory)
        client = JobClient(
            self.system, self.system.spawn(desk, "job-manager"), replace(GRAPH, checkpointing=checkpointing)
        )
        self.system.run_until_idle()
        return client


@pytest.mark.parametrize("directory", ["/here", Path("/here")])
def test_a_savepoint_goes_to_the_directory_that_is_named(directory: str | Path) -> None:
    cluster = Cluster(directory="/default")

    path = cluster.submit().trigger_savepoint(directory)

    asked = cluster.asked[-1]
    assert path == PATH
    assert isinstance(asked, TriggerSavepoint)
    assert asked.savepoint_directory == "/here"


def test_where_none_is_named_it_goes_to_the_default_one() -> None:
    cluster = Cluster(directory="s3://bucket/savepoints")

    cluster.submit().trigger_savepoint()

    asked = cluster.asked[-1]
    assert isinstance(asked, TriggerSavepoint)
    assert asked.savepoint_directory == "s3://bucket/savepoints"


def test_a_relative_directory_is_meant_from_here() -> None:
    cluster = Cluster()

    cluster.submit().trigger_savepoint("savepoints")

    asked = cluster.asked[-1]
    assert isinstance(asked, TriggerSavepoint)
    assert asked.savepoint_directory == os.path.join(os.getcwd(), "savepoints")


def test_without_any_directory_nobody_is_asked_and_the_error_says_how_to_name_one() -> None:
    cluster = Cluster()
    client = cluster.submit()

    with pytest.raises(SavepointError, match=r"^No savepoint directory configured\. You can either specify"):
        client.trigger_savepoint()
    with pytest.raises(
        SavepointError, match=r"set_default_savepoint_directory\(\.\.\.\), in `flykka run` --savepoint-dir"
    ):
        client.stop_with_savepoint()

    assert [type(message) for message in cluster.asked] == [SubmitJob]


def test_a_savepoint_that_failed_is_an_error_that_says_why() -> None:
    client = Cluster(refusal=DISK_FULL).submit()

    with pytest.raises(SavepointError, match=r"no savepoint of job 'counts' \(job\): the disk is full"):
        client.trigger_savepoint("/here")


def test_of_a_job_that_has_ended_there_is_none() -> None:
    cluster = Cluster()
    client = cluster.submit()
    client.stop()

    with pytest.raises(SavepointError, match="it is FINISHED already"):
        client.trigger_savepoint("/here")


def test_a_savepoint_that_takes_too_long_is_not_waited_for() -> None:
    client = Cluster(silent=True).submit()

    with pytest.raises(TimeoutError, match=r"no savepoint of job 'counts' \(job\) is complete after 2 s"):
        client.trigger_savepoint("/here", timeout=2)


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_with_a_savepoint_gives_its_path_and_so_does_the_result(drain: bool) -> None:
    cluster = Cluster()
    client = cluster.submit()

    path = client.stop_with_savepoint("/here", drain)

    asked = cluster.asked[-1]
    assert isinstance(asked, StopJob)
    assert (asked.savepoint_directory, asked.drain) == ("/here", drain)
    assert path == client.wait(timeout=0).checkpoint_path == PATH


def test_a_stop_asks_for_a_checkpoint_also_where_there_is_a_default_directory() -> None:
    cluster = Cluster(directory="/default")

    cluster.submit().stop()

    asked = cluster.asked[-1]
    assert isinstance(asked, StopJob)
    assert asked.savepoint_directory is None


def test_a_job_that_is_not_stopped_goes_on_and_the_error_says_why() -> None:
    client = Cluster(refusal=DISK_FULL).submit()

    with pytest.raises(JobStoppingError, match="was not stopped: the disk is full"):
        client.stop_with_savepoint("/here")


def test_a_coroutine_may_ask_from_another_thread() -> None:
    asked: list[Message] = []
    system = ActorSystem("savepoints")
    try:
        desk = system.spawn(Props(SavepointDesk, asked, None, silent=False), "job-manager")
        client = JobClient(system, desk, GRAPH)

        assert asyncio.run(asyncio.to_thread(client.trigger_savepoint, "/here")) == PATH
    finally:
        system.terminate().wait(5)
