"""Area 01: the coordinator, pending and completed checkpoints, failure counting, statistics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flykka.actors.checkpoint import effects, events
from flykka.actors.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.checkpoint.effects import TimerKind
from flykka.actors.checkpoint.failure_manager import COUNTED, CheckpointFailureManager
from flykka.actors.checkpoint.id_counter import CheckpointIdCounter
from flykka.actors.checkpoint.properties import DISCARDED_WHEN
from flykka.actors.checkpoint.statistics import (
    CheckpointStats,
    CheckpointStatsCounts,
    CheckpointStatsTracker,
    CompletedCheckpointStatsSummary,
)
from flykka.messages.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.coordination import CheckpointTimedOut
from flykka.messages.ids import JobId
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import ExternalizedCheckpointRetention
from tests.actors.checkpoint.coordinating import Coordination, snapshot, task
from tests.conformance.case_files import Case, UnknownWordError, cases_of, only_known_words
from tests.conformance.coordinator_case import CoordinatorCase, reason

CASES = cases_of("01_checkpoint_coordinator")

NOT_YET = (
    (
        "request_gate",
        "a queue of requests by priority (1.11+) comes with savepoints that users ask for; until then 1.9",
    ),
    ("hooks", "no user-defined hooks on the master's side yet"),
    ("completed_list", "lists of checkpoints are compared when a store is recovered after a takeover"),
    ("restore", "recovering a store after a takeover"),
    ("pending-sync-savepoint-not-subsumable", "savepoints that stop the job"),
    ("store-ha-suspend-keeps", "stores that outlive a takeover"),
    ("store-two-stores-shared-lock", "stores that outlive a takeover"),
    ("store-prefer-checkpoint-over-newer-savepoints", "savepoints in the store (1.5 to 1.14); here they stand apart"),
    ("store-restore-newest-savepoint-by-default", "savepoints in the store (1.5 to 1.14); here they stand apart"),
)
"""Components and cases without a counterpart so far, and why."""

UNMEASURED = {"alignment_buffered": "with credits nothing is buffered beside the channels while they are aligned"}
"""Figures of Flink's statistics that have no counterpart."""


def covered(*components: str) -> list[Any]:
    left_out = {name for name, _ in NOT_YET}
    return [
        pytest.param(case, id=case["id"])
        for case in CASES
        if case["given"]["component"] in components and not left_out & {case["id"], case["given"]["component"]}
    ]


def test_what_is_not_covered_is_named() -> None:
    known = {case["id"] for case in CASES} | {case["given"]["component"] for case in CASES}
    components = Counter(case["given"]["component"] for case in CASES)

    assert {name for name, _ in NOT_YET} <= known
    assert len(CASES) - sum(components.get(name, 1) for name, _ in NOT_YET) == 38


@pytest.mark.parametrize("case", covered("coordinator", "job"))
def test_a_coordinator_does_what_flinks_does(case: Case) -> None:
    CoordinatorCase(case).run()


@pytest.mark.parametrize("case", covered("failure_manager"))
def test_failures_are_counted_as_flink_counts_them(case: Case) -> None:
    manager = CheckpointFailureManager(case["given"]["tolerable"])
    failures = 0

    for step in case["steps"]:
        match step:
            case ["fail", str(why), int(checkpoint_id)]:
                failures += manager.fail(checkpoint_id, reason(why))
            case ["success", int()]:
                manager.succeed()
            case ["fail_each_known_reason_once", int(checkpoint_id)]:
                failures += sum(manager.fail(checkpoint_id, known) for known in CheckpointDeclineReason)
            case _:
                raise UnknownWordError(step)

    only_known_words("expect", case["expect"], {"job_failures", "counting_reasons"})
    assert failures == case["expect"]["job_failures"]
    if "counting_reasons" in case["expect"]:
        assert {reason(word) for word in case["expect"]["counting_reasons"]} == COUNTED


@pytest.mark.parametrize("case", covered("pending"))
def test_a_pending_checkpoint_ends_as_flinks_does(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"component", "forced", "tasks", "collected_states"})
    # One task more than acknowledges, where the case wants the checkpoint pending to the end.
    stays_pending = "tasks" not in given
    world = Coordination(*(task(str(number)) for number in range(given.get("tasks", 1) + stays_pending)))
    world.trigger()
    for name in given.get("collected_states", ()):
        world.acknowledge("0", 1, snapshot(exclusive=[name]))

    for step in case["steps"]:
        match step:
            case {"do": "ack", "task": number, **rest}:
                world.acknowledge(str(number), 1, snapshot() if "state" in rest else None)
            case {"do": "finalize" | "run_async_cleanup"}:
                pass  # The storage answers at once.
            case {"do": "set_timeout_handle", "want": {"accepted": True}}:
                assert (TimerKind.TIMEOUT, 1) in world.timers
            case {"do": "abort", "reason": "CHECKPOINT_EXPIRED"}:
                world.handle(CheckpointTimedOut(checkpoint_id=1))
            case {"do": "abort", "reason": why}:
                world.handle(events.PendingAborted(reason=reason(why)))
            case _:
                raise UnknownWordError(step)

    shown = {
        "fully_acknowledged": len(world.effects(effects.WriteMetadata)) == 1,
        "future": "done" if world.completed() == [1] else "failed",
        "discarded": world.disposed(),
        "timeout_cancelled": not world.timers,
        "operator_states_empty": all(
            entry.state is None for checkpoint in world.machine.completed for entry in checkpoint.task_states
        ),
    }
    only_known_words("expect", expect, set(shown))
    assert {word: shown[word] for word in expect} == expect


@pytest.mark.parametrize("case", covered("store"))
def test_a_store_retains_what_flinks_does(case: Case) -> None:
    only_known_words("given", case["given"], {"component", "retain", "discard_on_subsume_raises"})
    match case["expect"]:
        case {"construction_error": True}:
            with pytest.raises(ValueError, match="at least one"):
                CompletedCheckpointStore(case["given"]["retain"])
        case {"after_each_add": str()}:
            # Deleting is nobody's business inside `add`: it cannot fail by it.
            store = CompletedCheckpointStore(case["given"]["retain"])
            for _, checkpoint_id in case["steps"]:
                store.add(_completed(checkpoint_id))
                assert checkpoint_id in store
        case expect:
            raise UnknownWordError(expect)


@pytest.mark.parametrize("case", covered("retention"))
def test_completed_checkpoints_go_when_flinks_go(case: Case) -> None:
    policies = {
        "NEVER_RETAIN_AFTER_TERMINATION": ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        "RETAIN_ON_FAILURE": ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
        "RETAIN_ON_CANCELLATION": ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    }
    only_known_words("expect", case["expect"], {"discarded_when", "forced"})

    discarded = DISCARDED_WHEN[policies[case["given"]["policy"]]]

    shown = {word: word == "subsumed" or JobStatus(word) in discarded for word in case["expect"]["discarded_when"]}
    assert shown == case["expect"]["discarded_when"]


@pytest.mark.parametrize("case", covered("completed"))
def test_a_subsumed_checkpoint_leaves_nothing(case: Case) -> None:
    assert case["steps"] == [{"do": "subsume"}]
    world = Coordination(task("a"))

    for checkpoint_id in (1, 2):
        world.trigger()
        world.acknowledge("a", checkpoint_id, snapshot(exclusive=[f"state {checkpoint_id}"]))

    # The address of a checkpoint is its folder, the metadata in it.
    gone = {"state_discarded": "state 1", "location_disposed": "chk-1", "metadata_disposed": "chk-1"}
    assert {word: name in world.disposed() for word, name in gone.items()} == case["expect"]


@pytest.mark.parametrize("case", covered("id_counter"))
def test_ids_are_drawn_one_by_one(case: Case) -> None:
    counter = CheckpointIdCounter()
    words = {"get": counter.get, "get_and_increment": counter.get_and_increment}

    assert [[word, words[word]()] for word, _ in case["steps"]] == case["steps"]


@pytest.mark.parametrize("case", covered("stats_counts"))
def test_counts_move_as_flinks_do(case: Case) -> None:
    counts = frozen = CheckpointStatsCounts()
    columns = case["expect"].get("columns", ())
    after_each = []

    for step in case["steps"]:
        if step == "SNAPSHOT":
            frozen = counts
            continue
        counts = getattr(counts, f"with_{step}")()
        assert counts.in_progress >= 0
        after_each.append([getattr(counts, column) for column in columns])

    match case["expect"]:
        case {"after_each": wanted, "columns": _}:
            assert after_each == wanted
        case {"snapshot": wanted}:
            assert {column: getattr(frozen, column) for column in wanted} == wanted
        case {"in_progress_never_negative": True}:
            pass
        case expect:
            raise UnknownWordError(expect)


@pytest.mark.parametrize("case", covered("stats_history", "stats_tracker"))
def test_statistics_show_what_flinks_show(case: Case) -> None:
    given = case["given"]
    tracker = CheckpointStatsTracker(given.get("size", given.get("history", 10)))

    for step in case["steps"]:
        _report(tracker, step)

    for word, value in case["expect"].items():
        assert _shown(tracker, word, value) == value, word


@pytest.mark.parametrize("case", covered("stats_summary"))
def test_the_summary_spans_all_completed_checkpoints(case: Case) -> None:
    [[word, figures]] = case["steps"]
    assert (word, figures["i"]) == ("ten_checkpoints", "0..9")
    summary = CompletedCheckpointStatsSummary()

    for number in range(10):
        begun, ended, size = (_number(figures[name], number) for name in ("trigger_ts", "ack_ts", "state_size"))
        stats = CheckpointStats(checkpoint_id=number, trigger_ms=begun, duration_ms=ended - begun, size_bytes=size)
        summary = summary.with_completed(stats)

    shown: dict[str, Any] = {
        "count": summary.duration_ms.count,
        "state_size": [summary.size_bytes.least, summary.size_bytes.greatest],
        "duration": [summary.duration_ms.least, summary.duration_ms.greatest],
    }
    assert shown == {word: value for word, value in case["expect"].items() if word not in UNMEASURED}


def _completed(checkpoint_id: int) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("job"), checkpoint_id=checkpoint_id, timestamp_ms=0, duration_ms=0, task_states=()
    )


def _number(text: int | str, i: int) -> int:
    """A figure of a case: a number, or one that grows with `i`."""
    return text if isinstance(text, int) else int(text.removesuffix("+i")) + i


def _report(tracker: CheckpointStatsTracker, step: list[Any]) -> None:
    match step:
        case ["in_progress" | "pending", int(number), *rest]:
            tracker.report_pending(number, 0, is_savepoint=rest[:1] == ["savepoint"])
            for wants in rest:
                if isinstance(wants, dict):
                    assert {word: _shown(tracker, word, value) for word, value in wants.items()} == wants
        case ["completed" | "complete", int(number), *wants]:
            tracker.report_completed(number, 1, size_bytes=0, incremental_bytes=0)
            listed = any(stats.checkpoint_id == number for stats in tracker.history.listed())
            assert wants in ([], [{"replaced": listed}])
        case ["failed" | "fail", int(number)]:
            tracker.report_failed(number, 1, CheckpointDeclineReason.CHECKPOINT_DECLINED)
        case ["restored", int(number)]:
            tracker.report_restored(number)
        case _:
            raise UnknownWordError(step)


def _shown(tracker: CheckpointStatsTracker, word: str, value: Any) -> Any:
    latest = {
        "latest_completed": tracker.latest_completed,
        "latest_savepoint": tracker.latest_savepoint,
        "latest_failed": tracker.latest_failed,
    }
    match word:
        case "listed":
            return [[stats.checkpoint_id, stats.status.value] for stats in tracker.history.listed()]
        case "lookup":
            return {number: tracker.lookup(int(number)) is not None for number in value}
        case "counts":
            return {column: getattr(tracker.counts, column) for column in value}
        case "summary_samples":
            return tracker.summary.duration_ms.count
        case "latest_restored":
            return tracker.latest_restored_id
        case _:
            stats = latest[word]
            return stats and stats.checkpoint_id
