"""Late messages of actors that were given up or replaced have no effect, and are reported.

Each message class that crosses from one process to another is sent once more by an actor that is believed dead, as if a
network delivered the message late. The receiver's state does not change, and a dead letter is published.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import pytest

from flykka.messages.control.job import JobStatus
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    JobMasterRegistrationSuccess,
    RefuseRegistration,
    RegisterJobMaster,
    RegisterTaskManager,
    ResourceManagerLeaderAddress,
)
from flykka.messages.graph.job_graph import Operator
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.wire.ids import JobId, LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message, Value
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import Violation
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.actor import Actor
from flykka.runtime.events import DeadLetter
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.state.description import describe
from tests.actors.whole_cluster import Names, OneFileAtATime, WholeCluster
from tests.messages.registry import declared_messages

pytestmark = pytest.mark.slow

JOB = JobId("job")
FROM = {
    "TaskManager": r"\bTask(Manager)?s?\b",
    "JobMaster": r"\b(JobMasters?|CheckpointCoordinator)\b",
    "ResourceManager": r"\bResourceManager\b",
}
TO = {
    "TaskManager": r"\bTask(Manager)?s?\b",
    "JobMaster": r"\bJobMasters?\b",
    "ResourceManager": r"\bResourceManager\b",
}
PLAIN = {
    RegisterTaskManager,
    RegisterJobMaster,
    AcknowledgeRegistration,
    RefuseRegistration,
    ResourceManagerLeaderAddress,
}
"""Messages that are sent before a session exists, or that announce a session. Separate tests check these messages by
their sender.
"""
BETWEEN_TASKS = "flykka.messages.tasks.exchange"
"""The module of messages between attempts. They need no session, because each attempt is an actor of its own."""


def messages_between(sender: str, receiver: str) -> list[pytest.ParameterSet]:
    """Return the messages from `sender` to `receiver`, as their docstrings declare. Every third message is part of each
    test run.
    """
    found = []
    for kind in declared_messages().values():
        if not issubclass(kind, Message) or kind.__module__ == BETWEEN_TASKS:
            continue
        way = (kind.__doc__ or "").split(":")[0].split("->")
        steps = pairwise(way)
        if any(re.search(FROM[sender], one) and re.search(TO[receiver], other) for one, other in steps):
            found.append(kind)
    kinds = [kind for kind in found if kind not in PLAIN]
    return [pytest.param(kind, marks=pytest.mark.long if number % 3 else ()) for number, kind in enumerate(kinds)]


class EndlessFiles(OneFileAtATime):
    def discover(self, position: bytes) -> SplitsDiscovered:
        return replace(super().discover(position), finished=False)


class EndlessNames(Names):
    def split_discovery(self, job_id: JobId, operator: Operator) -> EndlessFiles:
        return EndlessFiles(operator.operator_id)


class Zombies:
    """A cluster with a running job, and the session that each actor had before its death."""

    def __init__(self, system: SeededSystem, folder: Path) -> None:
        self.system = system
        self.letters: list[DeadLetter] = []
        system.event_stream.subscribe(self.letters.append, DeadLetter)
        self.stage = WholeCluster(system, folder, EndlessNames())
        self.stage.submit(JOB)
        self.stage.run(seconds=2)
        assert self.stage.statuses()[-1] is JobStatus.RUNNING

    def ref(self, path: str) -> ActorRef:
        found = self.system.find(path)
        assert found is not None, f"nobody lives at {path}"
        return found

    def instance(self, ref: Ref) -> Any:
        cell = self.system.cells.find(ref.path)
        assert cell is not None
        assert isinstance(cell.instance, Actor)
        return cell.instance

    @property
    def resource_manager(self) -> ActorRef:
        return self.ref("/user/resource-manager")

    @property
    def job_master(self) -> ActorRef:
        return self.ref(f"/user/job-manager/job-{JOB}")

    @property
    def task_manager(self) -> ActorRef:
        return self.ref("/user/task-manager-1")

    def kill(self, ref: Ref) -> None:
        self.system.kill(ref)
        self.stage.run(seconds=1)

    def changes_nothing(self, receiver: ActorRef, message: Message, session: LeaderSessionId | None = None) -> None:
        """Send the message; assert that the receiver's state does not change and that the message is a dead letter."""
        self.system.run_until_idle()
        before = describe(self.instance(receiver))
        self.letters.clear()
        sender = self.system.dead_ref("/user/zombie", 1)
        said = message if session is None else LeaderSessionMessage(leader_session_id=session, message=message)
        receiver.actor_inbox.put((said, sender, None))
        self.system.run_until_idle()

        assert describe(self.instance(receiver)) == before
        assert [(letter.recipient, _inner(letter.message)) for letter in self.letters] == [(receiver, message)]


def _inner(message: Message) -> Message:
    return message.message if isinstance(message, LeaderSessionMessage) else message


@pytest.fixture
def zombies(tmp_path: Path) -> Iterator[Zombies]:
    with SeededSystem(3, serialize_messages=False) as system:
        yield Zombies(system, tmp_path)


def sample(kind: type[Value], zombies: Zombies) -> Any:
    """Return a message of this class that a receiver without fencing would handle."""
    known: dict[str, object] = {
        "job_id": JOB,
        "task_manager_id": TaskManagerId("task-manager-1"),
        "attempt": next(iter(zombies.instance(zombies.job_master)._graph.executions)).attempt,
    }
    hints = get_type_hints(kind, vars(sys.modules[kind.__module__]))
    return kind(**{name: known.get(name, _sample(hint, zombies)) for name, hint in hints.items()})


def _sample(hint: Any, zombies: Zombies) -> Any:
    if isinstance(hint, NewType):
        return _sample(hint.__supertype__, zombies)
    if get_origin(hint) in (Union, types.UnionType):
        return None if types.NoneType in get_args(hint) else _sample(get_args(hint)[0], zombies)
    if get_origin(hint) is tuple:
        return ()
    if hint is Ref:
        return zombies.job_master
    plain = {str: "x", int: 1, bool: True, bytes: b"", float: 1.0}
    if hint in plain:
        return plain[hint]
    if issubclass(hint, Enum):
        return next(iter(hint))
    if hint is Message:
        return sample(RegisterTaskManager, zombies)
    return sample(next(each for each in declared_messages().values() if issubclass(each, hint)), zombies)


# A TaskManager that was given up


@pytest.mark.parametrize("kind", messages_between("TaskManager", "ResourceManager"))
def test_messages_of_a_lost_task_manager_do_not_affect_the_resource_manager(
    zombies: Zombies, kind: type[Message]
) -> None:
    session = zombies.instance(zombies.resource_manager)._registrations.open_session(zombies.task_manager)
    message = sample(kind, zombies)

    zombies.kill(zombies.task_manager)

    zombies.changes_nothing(zombies.resource_manager, message, session)


@pytest.mark.parametrize("kind", messages_between("TaskManager", "JobMaster"))
def test_messages_of_a_lost_task_manager_do_not_affect_the_job_master(zombies: Zombies, kind: type[Message]) -> None:
    session = zombies.instance(zombies.task_manager)._job_masters[JOB].leader_session_id
    message = sample(kind, zombies)

    zombies.kill(zombies.task_manager)

    zombies.changes_nothing(zombies.job_master, message, session)


# A replaced JobMaster


@pytest.mark.parametrize("kind", messages_between("JobMaster", "ResourceManager"))
def test_a_former_job_master_cannot_redirect_the_resource_manager(zombies: Zombies, kind: type[Message]) -> None:
    session = zombies.instance(zombies.resource_manager)._registrations.open_session(zombies.job_master)
    message = sample(kind, zombies)

    zombies.kill(zombies.job_master)

    zombies.changes_nothing(zombies.resource_manager, message, session)


@pytest.mark.parametrize("kind", messages_between("JobMaster", "TaskManager"))
def test_a_former_job_master_cannot_redirect_a_task_manager(zombies: Zombies, kind: type[Message]) -> None:
    session = zombies.instance(zombies.task_manager)._leaders[JOB]
    message = sample(kind, zombies)

    zombies.kill(zombies.job_master)

    zombies.changes_nothing(zombies.task_manager, message, session)


def test_a_former_job_master_does_not_register_again(zombies: Zombies) -> None:
    former = zombies.job_master
    registration = RegisterJobMaster(job_id=JOB, leader_session_id=LeaderSessionId("former"), job_master=former)

    zombies.kill(former)

    zombies.changes_nothing(zombies.resource_manager, registration)


# A replaced ResourceManager


@pytest.mark.parametrize("kind", messages_between("ResourceManager", "TaskManager"))
def test_a_former_resource_manager_cannot_redirect_a_task_manager(zombies: Zombies, kind: type[Message]) -> None:
    session = zombies.instance(zombies.resource_manager)._registrations.open_session(zombies.task_manager)
    message = sample(kind, zombies)

    zombies.kill(zombies.resource_manager)

    zombies.changes_nothing(zombies.task_manager, message, session)


@pytest.mark.parametrize("kind", messages_between("ResourceManager", "JobMaster"))
def test_a_former_resource_manager_cannot_redirect_the_job_master(zombies: Zombies, kind: type[Message]) -> None:
    session = zombies.instance(zombies.resource_manager)._registrations.open_session(zombies.job_master)
    message = sample(kind, zombies)

    zombies.kill(zombies.resource_manager)

    zombies.changes_nothing(zombies.job_master, message, session)


def test_answers_of_a_former_resource_manager_are_dropped(zombies: Zombies) -> None:
    former = zombies.resource_manager
    session = LeaderSessionId("former")

    zombies.kill(former)

    acknowledgement = AcknowledgeRegistration(
        leader_session_id=session, heartbeat_interval_ms=1_000, heartbeat_timeout_ms=5_000
    )
    zombies.changes_nothing(zombies.task_manager, acknowledgement)
    zombies.changes_nothing(zombies.task_manager, RefuseRegistration(reason="it is late"))
    zombies.changes_nothing(zombies.task_manager, ResourceManagerLeaderAddress(resource_manager=former))
    job_master_session = zombies.instance(zombies.job_master)._session
    success = JobMasterRegistrationSuccess(leader_session_id=session)
    zombies.changes_nothing(zombies.job_master, success, job_master_session)


# Name collisions


def test_a_former_task_manager_with_a_reused_name_cannot_register(zombies: Zombies) -> None:
    former = zombies.system.dead_ref("/user/task-manager-1", 0)
    registration = RegisterTaskManager(task_manager_id=TaskManagerId("task-manager-1"), task_manager=former)

    zombies.changes_nothing(zombies.resource_manager, registration)
    zombies.changes_nothing(zombies.job_master, registration, zombies.instance(zombies.job_master)._session)


# No message bypasses the fencing


class SaidPlainly:
    """A monitor that records messages between processes without a session."""

    def __init__(self) -> None:
        self.kinds: set[type] = set()

    def observe(self, record: Record) -> Iterable[Violation]:
        if isinstance(record, Turn):
            for effect in record.effects:
                if isinstance(effect, Send) and _process(record.recipient) and _process(effect.target):
                    self._record(record.recipient, effect.target, type(effect.message))
        return ()

    def end(self) -> Iterable[Violation]:
        return ()

    def _record(self, sender: Ref, receiver: Ref, kind: type) -> None:
        if _process(sender) != _process(receiver) and kind is not LeaderSessionMessage:
            self.kinds.add(kind)


def _process(ref: Ref) -> str | None:
    """Return the process in which the actor lives; None if it is in none of the three."""
    found = re.match(r"/user/(resource-manager|task-manager-\d+|job-manager/job-)", ref.path)
    return found and found[1]


def test_messages_between_processes_carry_a_session(tmp_path: Path) -> None:
    plainly = SaidPlainly()
    with SeededSystem(3, recorder=MonitoringRecorder(None, (plainly,))) as system:
        zombies = Zombies(system, tmp_path)
        for dies in ("/user/task-manager-1", "/user/resource-manager", f"/user/job-manager/job-{JOB}"):
            zombies.kill(zombies.ref(dies))

        zombies.stage.stop(JOB)
        zombies.stage.run(seconds=2)

    assert {kind for kind in plainly.kinds if kind.__module__ != BETWEEN_TASKS} <= PLAIN
