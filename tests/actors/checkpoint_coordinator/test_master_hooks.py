"""Valid master hooks, and the handling of exceptions that they raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from flykka.actors.checkpoint_coordinator.master_hooks import MasterHooks, MasterTriggerRestoreHook
from flykka.actors.errors import MasterHookError
from flykka.messages.checkpointing.checkpoint import MasterState
from flykka.messages.control.job import JobResultFailure
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.job_cluster import JobCluster


class Hook(MasterTriggerRestoreHook):
    def __init__(self, identifier: str, answer: Any = None) -> None:
        self._identifier = identifier
        self._answer = answer
        self.calls: list[Any] = []

    @property
    def identifier(self) -> str:
        return self._identifier

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        self.calls.append(("trigger", checkpoint_id, timestamp_ms))
        return self._answers()

    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        self.calls.append(("restore", checkpoint_id, state))
        self._answers()

    def reset(self) -> None:
        self.calls.append("reset")

    def close(self) -> None:
        self.calls.append("close")
        self._answers()

    def _answers(self) -> bytes | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return cast("bytes | None", self._answer)


def test_a_hook_without_state_leaves_no_master_state() -> None:
    states = MasterHooks([Hook("a", b"state"), Hook("b")]).trigger(7, 1_000)

    assert states == (MasterState(identifier="a", data=b"state"),)


def test_a_hook_with_a_duplicate_name_is_not_added() -> None:
    first, second = Hook("a"), Hook("a")
    hooks = MasterHooks([first])

    assert hooks.add(second) is False
    assert list(hooks) == [first]


@pytest.mark.parametrize("identifier", ["", "  ", cast("str", None), cast("str", 7)])
def test_a_hook_without_a_name_is_refused(identifier: str) -> None:
    with pytest.raises(MasterHookError, match="the master hook Hook has the identifier"):
        MasterHooks([Hook(identifier)])


def test_an_invalid_hook_is_refused() -> None:
    with pytest.raises(MasterHookError, match="has to be a MasterTriggerRestoreHook, not 'hook'"):
        MasterHooks([cast("MasterTriggerRestoreHook", "hook")])


def test_a_failing_hook_is_reported_with_its_name_and_checkpoint() -> None:
    hooks = MasterHooks([Hook("a", ValueError("broken"))])

    with pytest.raises(MasterHookError, match="'a' failed for checkpoint 7") as raised:
        hooks.trigger(7, 0)
    with pytest.raises(MasterHookError, match="'a' could not be restored to checkpoint 7"):
        hooks.restore(7, [("a", None)])

    assert isinstance(raised.value.__cause__, ValueError)


def test_hook_state_must_be_bytes() -> None:
    with pytest.raises(MasterHookError, match="'a' returned str for checkpoint 7"):
        MasterHooks([Hook("a", "text")]).trigger(7, 0)


def test_master_hooks_are_reset_if_there_is_no_checkpoint() -> None:
    hook = Hook("a")

    MasterHooks([hook]).restore(None, [("a", None)])

    assert hook.calls == ["reset"]


def test_all_hooks_are_closed_even_if_one_raises() -> None:
    first, last = Hook("a", ValueError("broken")), Hook("b")

    with pytest.raises(ValueError, match="broken"):
        MasterHooks([first, last]).close()

    assert last.calls == ["close"]


def test_hooks_are_reset_when_a_job_starts_and_closed_when_it_ends(tmp_path: Path) -> None:
    hook = Hook("a")
    with SeededSystem(3) as system:
        cluster = JobCluster(system, tmp_path)
        cluster.data_plane.hooks.append(hook)
        cluster.run(cluster.graph(), slots=1)
        cluster.cancel()
        for attempt in ("job_source_0_0", "job_sink_0_0"):
            cluster.report(ExecutionAttemptId(attempt), ExecutionState.CANCELED)

    assert hook.calls == ["reset", "close"]


def test_a_hook_added_during_a_job_is_not_used_by_it(tmp_path: Path) -> None:
    early, late = Hook("early"), Hook("late")
    with SeededSystem(3) as system:
        cluster = JobCluster(system, tmp_path)
        cluster.data_plane.hooks.append(early)
        cluster.submit(cluster.graph())
        cluster.data_plane.hooks.append(late)
        cluster.accept_job_master()
        cluster.cancel()

    assert "close" in early.calls
    assert late.calls == []


def test_a_job_whose_application_has_a_hook_without_a_name_is_refused(tmp_path: Path) -> None:
    with SeededSystem(3) as system:
        cluster = JobCluster(system, tmp_path)
        cluster.data_plane.hooks.append(Hook(""))

        cluster.submit(cluster.graph())

        refused = cluster.last(cluster.client, JobResultFailure)
        assert refused.cause.type_name == "MasterHookError"
