"""The watchdog fails an attempt whose stage makes no progress: the conditions and the error message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.attempt.watchdog import StageWatchdog
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import EngineFailed, WorkProgress
from flykka.messages.attempt.commands import Command, OpenChain
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.monitoring.explanation import ExplainStages, StageProgress, StagesExplained
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.dispatch.dispatcher import Pipe
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.attempt.attempt_machine import descriptor

STANDING = WorkProgress(piece=3, what="stage 7 of 'merge'", age_ms=0, jobs=1, tasks=8, tasks_done=3, tasks_active=2)


def test_a_stalled_stage_fails_with_its_progress_and_time() -> None:
    watchdog = StageWatchdog(5_000)

    assert watchdog.stalled(watchdog.observe((STANDING,), 1_000), 1_000) is None
    assert watchdog.stalled(watchdog.observe((STANDING,), 5_999), 5_999) is None
    failure = watchdog.stalled(watchdog.observe((STANDING,), 6_000), 6_000)

    assert failure is not None
    assert (failure.type_name, failure.message) == (
        "StageTimeoutError",
        "stage 7 of 'merge' has made no progress for 5.0 s (the stage timeout is 5 s): 3 of 8 Spark tasks are done,"
        " 2 run",
    )


@pytest.mark.parametrize(
    "further",
    [
        replace(STANDING, tasks_done=4),
        replace(STANDING, jobs=2),
        replace(STANDING, tasks=9),
        replace(STANDING, piece=4),
    ],
    ids=["done", "jobs", "tasks", "piece"],
)
def test_finished_tasks_started_jobs_and_other_work_count_as_progress(further: WorkProgress) -> None:
    watchdog = StageWatchdog(5_000)
    watchdog.observe((STANDING,), 1_000)

    stages = watchdog.observe((further,), 6_000)

    assert watchdog.stalled(stages, 6_000) is None
    assert [stage.progress_ms for stage in stages] == [6_000]


def test_started_and_failed_tasks_do_not_count_as_progress() -> None:
    watchdog = StageWatchdog(5_000)
    watchdog.observe((STANDING,), 1_000)

    failure = watchdog.stalled(watchdog.observe((replace(STANDING, tasks_active=1, tasks_failed=2),), 6_000), 6_000)

    assert failure is not None
    assert failure.message.endswith("3 of 8 Spark tasks are done, 1 run, 2 have failed")


def test_the_stall_timeout_begins_at_the_start_of_a_stage() -> None:
    watchdog = StageWatchdog(5_000)
    waiting = WorkProgress(piece=1, what="opening", age_ms=7_000)

    failure = watchdog.stalled(watchdog.observe((waiting,), 10_000), 10_000)

    assert failure is not None
    assert failure.message.endswith(
        "for 7.0 s (the stage timeout is 5 s): it has started no Spark job: code in the driver is running"
    )


def test_a_watchdog_without_a_timeout_neither_checks_nor_fails_a_stage() -> None:
    watchdog = StageWatchdog(None)

    assert watchdog.interval_ms is None
    watchdog.observe((STANDING,), 0)
    assert watchdog.stalled(watchdog.observe((STANDING,), 10**9), 10**9) is None


@pytest.mark.parametrize(("timeout_ms", "interval_ms"), [(20, 50), (1_000, 250), (600_000, 10_000)])
def test_stages_are_checked_several_times_within_the_timeout(timeout_ms: int, interval_ms: int) -> None:
    assert StageWatchdog(timeout_ms).interval_ms == interval_ms


class HangingEngine(EmptyEngine):
    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        super().__init__(descriptor)
        self.works: Callable[[], tuple[WorkProgress, ...]] = lambda: (STANDING,)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: object) -> HangingEngine:
        return self

    def lane(self, command: Command, piece: int, what: str) -> HangingEngine:
        return self

    def run_blocking(self, work: Pipe[Any]) -> None: ...

    def progress(self) -> tuple[WorkProgress, ...]:
        return self.works()


class Parent(Actor):
    def __init__(self, bridge: Props, shown: list[Message]) -> None:
        self._props = bridge
        self._shown = shown

    def pre_start(self) -> None:
        self.context.spawn(self._props, "bridge")

    def handle_message(self, message: Message) -> None:
        self._shown.append(message)


class Hanging:
    def __init__(self, system: SeededSystem, stage_timeout_ms: int | None) -> None:
        deployed = replace(descriptor(OperatorKind.STATELESS), stage_timeout_ms=stage_timeout_ms)
        self.engine, self.messages = HangingEngine(deployed), list[Message]()
        props = Props(Bridge, deployed, self.engine)
        system.spawn(Props(Parent, props, self.messages), "task")
        system.run_until_idle()
        found = system.find("/user/task/bridge")
        assert found is not None
        self.ref = found


def test_a_task_is_notified_of_a_stalled_stage_after_the_timeout(seeded_system: SeededSystem) -> None:
    bridge = Hanging(seeded_system, 8_000)

    seeded_system.advance(9_999)
    assert bridge.messages == []
    seeded_system.advance(60_000)

    (failed,) = bridge.messages
    assert isinstance(failed, EngineFailed)
    assert failed.cause.type_name == "StageTimeoutError"


def test_each_explain_request_is_answered_with_the_current_work(seeded_system: SeededSystem) -> None:
    bridge, probe = Hanging(seeded_system, None), TestProbe(seeded_system)
    seeded_system.advance(500)

    bridge.ref.tell(ExplainStages(reply_to=probe.ref))
    seeded_system.advance(5)

    explained = probe.expect_message(StagesExplained)
    assert explained.stages == (
        StageProgress(what="stage 7 of 'merge'", since_ms=500, tasks=8, tasks_done=3, tasks_active=2, progress_ms=500),
    )


def test_a_stage_is_described_by_its_command_if_the_engine_is_silent(seeded_system: SeededSystem) -> None:
    def refused() -> tuple[WorkProgress, ...]:
        raise ConnectionRefusedError

    bridge, probe = Hanging(seeded_system, None), TestProbe(seeded_system)
    bridge.engine.works = refused
    bridge.ref.tell(OpenChain(restore=None))

    bridge.ref.tell(ExplainStages(reply_to=probe.ref))
    seeded_system.advance(5)

    (stage,) = probe.expect_message(StagesExplained).stages
    assert (stage.what, stage.tasks) == ("opening 'op'", 0)
