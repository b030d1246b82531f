"""The bridge calls the engine's method for a command, on the lane of the command, and sends the result to the Task."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from flykka.actors.data_plane import Engine
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import Answer, CommitPrepared, EngineFailed, WorkDone, WorkFailed
from flykka.messages.attempt.commands import (
    CancelWork,
    CloseChain,
    Command,
    HoldBatches,
    InterruptWork,
    Lane,
    PrepareCommit,
    ReleaseBatches,
    UpdateState,
    Work,
    WriteChannelState,
    WriteSnapshot,
)
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.dispatch.dispatcher import Executor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.attempt.attempt_machine import descriptor

COMMANDS: tuple[type[Command], ...] = get_args(Work)
BOOM = SerializedThrowable(type_name="OSError", message="boom")


class NotingEngine(EmptyEngine):
    """Records its calls; preparing a commit fails."""

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        super().__init__(descriptor)
        self.calls: list[str] = []
        self.described: list[str] = []

    def engine(self, descriptor: TaskDeploymentDescriptor, report: object) -> NotingEngine:
        return self

    def lane(self, command: Command, piece: int, what: str) -> Executor:
        self.described.append(f"{piece}: {what}")
        return super().lane(command, piece, what)

    def prepare_commit(self, command: PrepareCommit) -> CommitPrepared:
        raise OSError("boom")

    def failed(self, command: Command, what: str, raised: BaseException) -> WorkFailed:
        cause = SerializedThrowable(type_name=type(raised).__name__, message=str(raised))
        return WorkFailed(command=command, cause=cause)

    def release_batches(self, command: ReleaseBatches) -> None:
        self.calls.append(f"release {command.holder}")

    def cancel_work(self) -> None:
        self.calls.append("cancel")

    def interrupt_work(self) -> None:
        self.calls.append("interrupt")


class Parent(Actor):
    def __init__(self, bridge: Props, answers: list[Message]) -> None:
        self._props = bridge
        self._answers = answers

    def pre_start(self) -> None:
        self.context.spawn(self._props, "bridge")

    def handle_message(self, message: Message) -> None:
        self._answers.append(message)


class Attempt:
    def __init__(self, system: SeededSystem) -> None:
        deployed = descriptor(OperatorKind.STATELESS)
        self.engine, self.answers = NotingEngine(deployed), list[Message]()
        system.spawn(Props(Parent, Props(Bridge, deployed, self.engine), self.answers), "task")
        system.run_until_idle()
        found = system.find("/user/task/bridge")
        assert found is not None
        self.bridge: ActorRef = found
        self._system = system

    def tell(self, *messages: Message) -> None:
        for message in messages:
            self.bridge.tell(message)
        self._system.run_until_idle()


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_engine_has_a_method_for_every_command(kind: type[Command]) -> None:
    method = getattr(Engine, kind.method)
    hints = get_type_hints(method)

    assert list(inspect.signature(method).parameters) == ["self", "command"]
    assert hints["command"] is kind
    assert hints["return"] is type(None) or hints["return"] in get_args(Answer)


def test_commands_have_lanes_and_some_fail_only_their_checkpoint() -> None:
    lanes = {kind: kind.lane for kind in COMMANDS}

    assert (lanes[UpdateState], lanes[PrepareCommit], lanes[HoldBatches], lanes[CloseChain]) == (
        Lane.STAGES,
        Lane.BACKGROUND,
        Lane.AT_ONCE,
        Lane.END,
    )
    assert {kind for kind in COMMANDS if kind.survivable} == {HoldBatches, WriteChannelState, WriteSnapshot}


def test_results_are_sent_in_order_even_for_work_without_a_result(seeded_system: SeededSystem) -> None:
    attempt, update = Attempt(seeded_system), UpdateState(stage=3)
    prepare = PrepareCommit(checkpoint_id=7, staged=())

    attempt.tell(update, prepare)

    assert attempt.answers == [WorkDone(command=update), WorkFailed(command=prepare, cause=BOOM)]
    assert attempt.engine.described == ["1: stage 3 of 'op'", "2: snapshot 7 of 'op'"]


def test_commands_without_a_result_are_called_at_once(seeded_system: SeededSystem) -> None:
    attempt = Attempt(seeded_system)

    attempt.tell(ReleaseBatches(holder="a"), CancelWork(), InterruptWork())

    assert attempt.engine.calls == ["release a", "cancel", "interrupt"]
    assert attempt.answers == []


def test_a_failure_of_the_engine_is_reported(seeded_system: SeededSystem) -> None:
    attempt = Attempt(seeded_system)

    attempt.tell(EngineFailed(cause=BOOM))

    assert attempt.answers == [EngineFailed(cause=BOOM)]


def test_cancelled_work_is_not_watched(seeded_system: SeededSystem) -> None:
    attempt = Attempt(seeded_system)
    attempt.engine.lane = lambda *_: Nowhere()  # type: ignore[method-assign]
    attempt.tell(UpdateState(stage=1))
    (cell,) = [each for each in seeded_system.cells.living() if isinstance(each.instance, Bridge)]
    bridge: Any = cell.instance
    before = list(bridge.unanswered())

    attempt.tell(CancelWork())

    assert (before, list(bridge.unanswered())) == ([1], [])


class Nowhere:
    def run_blocking(self, work: object) -> None: ...
