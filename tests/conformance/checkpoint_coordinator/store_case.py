"""Area 01, completed checkpoints: `store`, `completed`, `retention`, `id_counter`."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.machines.checkpoint.properties import (
    CheckpointProperties,
    for_checkpoint,
    for_savepoint,
    for_sync_savepoint,
)
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.messages.wire.ids import JobId
from tests.actors.leading import new_checkpoints
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    completed_checkpoint,
    planned_task,
    snapshot,
)
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.ha_store_case import HaStore
from tests.conformance.checkpoint_coordinator.words import NEVER_RETAINED

RETENTIONS = {
    "NEVER_RETAIN_AFTER_TERMINATION": ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
    "RETAIN_ON_FAILURE": ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
    "RETAIN_ON_CANCELLATION": ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
}


def run_store(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"component", "retain", "discard_on_subsume_raises", "ha"})
    if expect.get("construction_error"):
        with pytest.raises(ValueError, match="at least one"):
            CompletedCheckpointStore(JOB, given["retain"])
        return
    store = HaStore(given["retain"]) if given.get("ha") else _Store(given["retain"])
    for step in case["steps"]:
        store.do(step)
    store.check(expect)


class _Store:
    def __init__(self, retain: int) -> None:
        self._store = CompletedCheckpointStore(JOB, retain, NEVER_RETAINED)
        self._discarded: list[int] = []

    def do(self, step: list[Any]) -> None:
        *words, last = step
        wants = last if isinstance(last, dict) else {}
        store = self._store
        match words if isinstance(last, dict) else step:
            case ["add", int(checkpoint_id), *kind] if kind in ([], ["savepoint"], ["checkpoint"]):
                gone = store.add(completed_checkpoint(checkpoint_id, savepoint=kind == ["savepoint"]))
                self._note(gone=[each for each in gone if store.is_discarded_when_subsumed(each)])
                # Deletion is not part of `add`, so a failed deletion never raises here.
                assert checkpoint_id in store or gone
            case ["shutdown", str(status)]:
                held = list(store)
                kept = store.shutdown(JobStatus(status))
                self._note(gone=[checkpoint for checkpoint in held if checkpoint not in kept])
            case _:
                raise UnknownWordError(step)
        self.check(wants)

    def check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word) == value or (word == "after_each_add" and isinstance(value, str)), word

    def _note(self, gone: list[CompletedCheckpoint]) -> None:
        self._discarded += [checkpoint.checkpoint_id for checkpoint in gone]

    def _shows(self, word: str) -> Any:
        store = self._store
        match word:
            case "latest" | "restored_from" | "latest_prefer_checkpoint":
                return store.latest and store.latest.checkpoint_id
            case "all":
                return [checkpoint.checkpoint_id for checkpoint in store]
            case "count":
                return len(store)
            case "discarded":
                return self._discarded
            case "after_each_add":
                return True
            case _:
                raise UnknownWordError(word)


def run_completed(case: Case) -> None:
    """Run one case of `completed`: state, folder and metadata of one checkpoint are deleted together."""
    only_known_words("given", case["given"], {"component", "discard_on"})
    discard_on = set(case["given"]["discard_on"])
    discarded = [path for step in case["steps"] for path in _discarded_by(step, discard_on)]

    # The address of a checkpoint is its folder, which contains the metadata.
    names = {"state_discarded": "state 1", "location_disposed": "chk-1", "metadata_disposed": "chk-1"}
    only_known_words("expect", case["expect"], set(names))
    assert {word: names[word] in discarded for word in case["expect"]} == case["expect"]


def _discarded_by(step: Any, discard_on: set[str]) -> list[str]:
    match step:
        case {"do": "subsume"} if "subsumed" in discard_on:
            return _what_a_subsumed_checkpoint_leaves()
        case {"do": "subsume"}:
            store = CompletedCheckpointStore(JOB, 1, _properties(discard_on))
            store.add(completed_checkpoint(1))
            [subsumed] = store.add(completed_checkpoint(2))
            return [] if not store.is_discarded_when_subsumed(subsumed) else ["chk-1", "state 1"]
        case {"do": "shutdown", "status": str(status), **others} if not others:
            store = CompletedCheckpointStore(JOB, 1, _properties(discard_on))
            store.add(completed_checkpoint(1))
            return [] if store.shutdown(JobStatus(status)) else ["chk-1", "state 1"]
        case _:
            raise UnknownWordError(step)


def _what_a_subsumed_checkpoint_leaves() -> list[str]:
    harness = Coordination(planned_task("a"))
    for checkpoint_id in (1, 2):
        harness.trigger()
        harness.acknowledge("a", checkpoint_id, snapshot(exclusive=[f"state {checkpoint_id}"]))
    return harness.disposed()


def _properties(discard_on: set[str]) -> CheckpointProperties:
    statuses = frozenset(JobStatus(word) for word in discard_on - {"subsumed"})
    return CheckpointProperties(discard_subsumed="subsumed" in discard_on, discarded_when=statuses)


def run_retention(case: Case) -> None:
    only_known_words("given", case["given"], {"component", "policy", "kind"})
    only_known_words("expect", case["expect"], {"discarded_when", "forced"})
    properties = _of_policy(case["given"].get("policy") or case["given"]["kind"])

    shown: dict[str, Any] = {"forced": properties.forced}
    if "discarded_when" in case["expect"]:
        shown["discarded_when"] = {
            word: properties.discard_subsumed if word == "subsumed" else JobStatus(word) in properties.discarded_when
            for word in case["expect"]["discarded_when"]
        }
    assert {word: shown[word] for word in case["expect"]} == case["expect"]


def _of_policy(word: str) -> CheckpointProperties:
    match word.lower():
        case "savepoint":
            return for_savepoint()
        case "sync_savepoint":
            return for_sync_savepoint()
        case _ if word in RETENTIONS:
            return for_checkpoint(RETENTIONS[word])
        case _:
            raise UnknownWordError(word)


class _Counter:
    """The ids of a job in the store, drawn one at a time."""

    def __init__(self) -> None:
        self._drawn = new_checkpoints(JobId("job"))

    def get(self) -> int:
        return self._drawn.recover("the counter", 0).first_id

    def get_and_increment(self) -> int:
        return self._drawn.recover("the counter", 1).first_id

    def set(self, first: int) -> None:
        self._drawn.recover("the counter", 0)
        self._drawn.draw_ids("the counter", 0, at_least=first)


def run_id_counter(case: Case) -> None:
    only_known_words("given", case["given"], {"component"})
    only_known_words("expect", case["expect"], {"returns_as_listed"})
    counter = _Counter()
    for step in case["steps"]:
        match step:
            case ["get", int(wanted)]:
                assert counter.get() == wanted
            case ["get_and_increment", int(wanted)]:
                assert counter.get_and_increment() == wanted
            case ["set" | "set_count", int(first)]:
                counter.set(first)
            case _:
                raise UnknownWordError(step)
