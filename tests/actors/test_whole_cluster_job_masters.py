"""A JobMaster or the JobManager is killed at each message of a job's run in turn. The output and the messages to the
client do not change.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.client.job_client import JobClient
from flykka.messages.control.job import JobResultFailure, JobResultSuccess
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.whole_cluster import ALL_FILES, WholeCluster

pytestmark = pytest.mark.slow

JOB_MANAGER = "/user/job-manager"
JOB_MASTER = f"{JOB_MANAGER}/job-job"
PARTS = 16
SECONDS = 30


class KillAt:
    """Kills an actor right before the actor or one of its descendants handles the message with this number."""

    def __init__(self, system: SeededSystem, doomed: str, number: int) -> None:
        self.seen = 0
        self._system = system
        self._doomed = doomed
        self._number = number
        system.add_delivery_hook(self)

    def __call__(self, recipient: ActorRef, message: Message, sender: Ref | None) -> None:
        if not f"{recipient.path}/".startswith(f"{self._doomed}/"):
            return
        self.seen += 1
        if self.seen == self._number and (living := self._system.find(self._doomed)) is not None:
            self._system.kill(living)


def run_with_kill(folder: Path, doomed: str, number: int) -> tuple[int, WholeCluster]:
    with SeededSystem(number) as system:
        stage = WholeCluster(system, folder)
        kill = KillAt(system, doomed, number)
        stage.submit()
        stage.run(SECONDS)
        assert stage.client.received(JobResultFailure) == [], f"killed before message {number}"
        return kill.seen, stage


def messages_of_a_life(folder: Path, doomed: str) -> int:
    seen, stage = run_with_kill(folder, doomed, 0)
    assert len(stage.client.received(JobResultSuccess)) == 1
    return seen


parts = pytest.mark.parametrize(
    "part", [pytest.param(part, marks=() if part == 0 else pytest.mark.long) for part in range(PARTS)]
)
"""All messages of a run, divided among several tests; only one of them is part of each test run."""


@parts
def test_each_file_is_published_once_if_a_job_master_is_killed(part: int, tmp_path: Path) -> None:
    last = messages_of_a_life(tmp_path / "whole", JOB_MASTER)

    for number in range(1 + part, last + 1, PARTS):
        _, stage = run_with_kill(tmp_path / str(number), JOB_MASTER, number)

        assert stage.data_plane.sink.published == ALL_FILES, f"killed before message {number}"
        results = stage.client.received(JobResultSuccess)
        assert len(results) == 1, f"killed before message {number}"


def run_with_client(folder: Path, number: int) -> tuple[int, WholeCluster]:
    """Run a job with a client that looks up the next JobManager. Raises if the job does not succeed."""
    with SeededSystem(number) as system:
        stage = WholeCluster(system, folder)
        kill = KillAt(system, JOB_MANAGER, number)
        client = JobClient(system, stage.job_manager, stage.graph())
        client.wait(timeout=SECONDS)
        return kill.seen, stage


@parts
def test_each_file_is_published_once_if_a_job_manager_is_killed(part: int, tmp_path: Path) -> None:
    last, _ = run_with_client(tmp_path / "whole", 0)

    for number in range(1 + part, last + 1, PARTS):
        _, stage = run_with_client(tmp_path / str(number), number)

        assert stage.data_plane.sink.published == ALL_FILES, f"killed before message {number}"
