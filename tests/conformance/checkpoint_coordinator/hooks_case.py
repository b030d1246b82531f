"""Area 01, component `hooks`: when master hooks are called, and with which arguments."""

from __future__ import annotations

import json
from typing import Any, cast

from flykka.actors.checkpoint_coordinator.master_hooks import MasterHooks, MasterTriggerRestoreHook
from flykka.actors.errors import MasterHookError
from flykka.actors.machines.checkpoint import events
from flykka.messages.checkpointing.checkpoint import MasterState
from flykka.messages.control.checkpoint_coordination import (
    MetadataRead,
    RequestRestoreState,
    RestoreStateFailed,
    StopCheckpointing,
)
from flykka.messages.control.job import JobStatus
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, completed_checkpoint, planned_task
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.words import reason

TASKS = ("a", "b")


class RecordingHook(MasterTriggerRestoreHook):
    """Records its calls; expects `state` at a restore."""

    def __init__(self, identifier: str, state: Any = None) -> None:
        self._identifier = identifier
        self._state = state
        self.triggered: list[int] = []
        self.restored: list[list[Any]] = []
        self.resets = 0
        self.closes = 0
        self.harness: Coordination | None = None
        self.pending_seen: list[int] = []

    @property
    def identifier(self) -> str:
        return self._identifier

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        self.triggered.append(checkpoint_id)
        if self.harness is not None:
            self.pending_seen = list(self.harness.machine.pending)
        return None if self._state is None else _packed(self._state)

    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        self.restored.append([checkpoint_id, None if state is None else json.loads(state)])

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closes += 1


def run_case(case: Case) -> None:
    if isinstance(case["steps"][0], list):
        _register(case)
    else:
        _Hooked(case).run()


def _register(case: Case) -> None:
    hooks = MasterHooks()
    for step in case["steps"]:
        match step:
            case ["register", str(identifier), bool(accepted)]:
                assert hooks.add(RecordingHook(identifier)) is accepted
            case ["register_none", "error"]:
                _refuse(hooks, None)
            case ["register_with_null_id", "error"]:
                _refuse(hooks, RecordingHook(cast("str", None)))
            case ["register_with_blank_id" | "register_with_empty_id", "error"]:
                _refuse(hooks, RecordingHook("   "))
            case _:
                raise UnknownWordError(step)
    assert case["expect"] == {"returns_as_listed": True}


def _refuse(hooks: MasterHooks, hook: MasterTriggerRestoreHook | None) -> None:
    try:
        hooks.add(cast("MasterTriggerRestoreHook", hook))
    except MasterHookError:
        return
    raise AssertionError(f"{hook} was accepted")


class _Hooked:
    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"component", "hooks", "store"})
        self._case = case
        named = given["hooks"] if isinstance(given["hooks"], dict) else dict.fromkeys(given["hooks"])
        self._hooks = {name: RecordingHook(name, state) for name, state in named.items()}
        self._world = Coordination(*map(planned_task, TASKS), hooks=tuple(self._hooks.values()))
        for hook in self._hooks.values():
            hook.harness = self._world
        self._version = 0
        self._result = "ok"

    def run(self) -> None:
        for step in self._case["steps"]:
            self._do(step)
            self._check(step.get("want", {}))
        self._check(self._case["expect"])

    def _do(self, step: dict[str, Any]) -> None:
        harness = self._world
        match step["do"]:
            case "trigger":
                only_known_words("trigger", step, {"do", "want"})
                made = harness.trigger()
                declined = [effect.reason for effect in made if isinstance(effect, events.TriggerDeclined)]
                self._result = declined[-1] if declined else "ok"
            case "ack_all":
                for name in TASKS:
                    harness.acknowledge(name, step["cp"])
            case "restore_latest" | "restore_latest_to_subtasks":
                known = {"do", "want", "error_if_none", "allow_unmatched", "subtasks"}
                only_known_words("restore", step, known)
                # The specified subtasks may not need all state of the checkpoint.
                self._restore(allow_non_restored_state=step.get("allow_unmatched", "subtasks" in step))
                if step.get("error_if_none") and not len(harness.machine.completed):
                    # Each request is answered with the error that no state can be restored.
                    self._result = "error"
            case "shutdown":
                harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus(step["status"])))
            case word:
                raise UnknownWordError(word)

    def _restore(self, *, allow_non_restored_state: bool) -> None:
        self._version += 1
        stored = self._case["given"].get("store", ())
        if stored and not len(self._world.machine.completed):
            entry = max(stored, key=lambda entry: int(entry["cp"]))
            only_known_words("store", entry, {"cp", "hook_states"})
            states = tuple(
                MasterState(identifier=name, data=_packed(state)) for name, state in entry["hook_states"].items()
            )
            adopted = completed_checkpoint(entry["cp"], master_states=states)
            made = self._world.handle(
                MetadataRead(
                    version=self._version, checkpoint=adopted, allow_non_restored_state=allow_non_restored_state
                )
            )
        else:
            made = self._world.handle(
                RequestRestoreState(
                    job_id=JOB, version=self._version, allow_non_restored_state=allow_non_restored_state
                )
            )
        self._result = "error" if any(isinstance(effect, RestoreStateFailed) for effect in made) else "ok"

    def _check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word, value) == value, word

    def _shows(self, word: str, value: Any) -> Any:
        harness, hooks = self._world, self._hooks
        match word:
            case "all_wants_hold":
                return True
            case "result":
                return self._result if value in ("ok", "error") or self._result != reason(value) else value
            case "error":
                return (self._result == "error") if isinstance(value, bool) else value
            case "pending_count":
                return len(harness.machine.pending)
            case "completed":
                return harness.completed()
            case "trigger_calls":
                return {name: len(hooks[name].triggered) for name in value}
            case "reset_calls":
                return {name: hooks[name].resets for name in value}
            case "close_calls":
                return {name: hooks[name].closes for name in value}
            case "restore_calls":
                return {name: _only(hooks[name].restored) for name in value}
            case "stored_hook_states":
                [checkpoint] = harness.machine.completed
                return {state.identifier: json.loads(state.data) for state in checkpoint.master_states}
            case "pending_seen_by_hook":
                [hook] = hooks.values()
                return hook.pending_seen
            case _:
                raise UnknownWordError(word)


def _only(calls: list[list[Any]]) -> list[Any] | None:
    assert len(calls) <= 1, calls
    return calls[0] if calls else None


def _packed(state: Any) -> bytes:
    return json.dumps(state).encode()
