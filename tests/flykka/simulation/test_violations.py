"""The checks of a simulation detect and name each kind of violation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.exchange.watermarks import WatermarkValve
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.attempt.commands import WriteSnapshot
from flykka.messages.graph.job_graph import CheckpointingMode
from flykka.messages.state.handles import PendingFile
from flykka.simulation.engine import SimulatedEngine, SimulatedSinkWriter
from flykka.simulation.environment import IN_TRANSIT, Batches
from flykka.simulation.rows import Row
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.simulation import simulate
from flykka.simulation.state import SimulatedPanes

pytestmark = pytest.mark.slow

WITHOUT_FAULTS = SimulationSettings(faults=frozenset())


def a_seed_at_least_once() -> int:
    modes = ((seed, draw_scenario(seed, WITHOUT_FAULTS).jobs[0].checkpointing.mode) for seed in count())
    return next(seed for seed, mode in modes if mode is CheckpointingMode.AT_LEAST_ONCE)


def first_violations(seeds: Iterable[int], settings: SimulationSettings = WITHOUT_FAULTS) -> list[str]:
    for seed in seeds:
        if violations := simulate(seed, settings).violations:
            return [str(violation) for violation in violations]
    return []


def test_an_unstaged_row_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimulatedSinkWriter.stage
    monkeypatch.setattr(SimulatedSinkWriter, "stage", lambda writer, rows: stage(writer, rows[1:]))

    violations = first_violations([0])

    assert any(" lacks " in text and text.endswith("[output]") for text in violations)


def test_a_row_staged_twice_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimulatedSinkWriter.stage
    monkeypatch.setattr(SimulatedSinkWriter, "stage", lambda writer, rows: stage(writer, rows + rows[:1]))

    violations = first_violations([0])

    assert any(" rows too many, such as " in text for text in violations)


def test_output_visible_before_its_checkpoint_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = SimulatedSinkWriter.prepare_commit

    def publish_at_once(writer: SimulatedSinkWriter, checkpoint_id: int, staged: tuple[str, ...]) -> Any:
        prepared = prepare(writer, checkpoint_id, staged)
        writer.commit(checkpoint_id)
        return prepared

    monkeypatch.setattr(SimulatedSinkWriter, "prepare_commit", publish_at_once)

    violations = first_violations([0])

    assert any("is published, but no complete checkpoint contains it" in text for text in violations)


def test_a_batch_that_is_never_released_is_found_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batches, "release", lambda *_: None)
    monkeypatch.setattr(Batches, "release_attempt", lambda *_, **__: None)

    violations = first_violations([0])

    assert any("are not released at its end" in text for text in violations)


def test_a_batch_read_after_its_release_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Batches.put

    def put_and_release(store: Batches, ref: Any, rows: Any, **context: Any) -> None:
        put(store, ref, rows, **context)
        store.release([ref.batch_id], IN_TRANSIT)

    monkeypatch.setattr(Batches, "put", put_and_release)

    violations = first_violations([0], SimulationSettings(faults=frozenset(), patience_ms=1_000))

    assert any("all its holders have released it" in text for text in violations)


def test_undeleted_state_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointStorage, "discard", lambda *_: None)

    violations = first_violations(range(40))

    assert any(text.endswith("which has no references [storage]") for text in violations)


def test_a_savepoint_with_deleted_state_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    write = SimulatedEngine.write_snapshot

    def write_and_lose(engine: SimulatedEngine, command: WriteSnapshot) -> SnapshotWritten:
        written = write(engine, command)
        if command.savepoint is not None:
            for state in written.operators:
                for handle in state.exclusive:
                    engine.environment.discard([handle.path])
        return written

    monkeypatch.setattr(SimulatedEngine, "write_snapshot", write_and_lose)

    violations = first_violations(range(100), SimulationSettings(faults=frozenset({FaultKind.REQUEST})))

    assert any("was retained, but cannot be restored: " in text for text in violations)


def test_a_job_that_does_not_end_is_reported_as_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamTask, "_on_committed", lambda *_: [])

    violations = first_violations([0], SimulationSettings(faults=frozenset(), patience_ms=3_000))

    assert any(text == "job-1 has not ended 3 s after the last fault [progress]" for text in violations)


def test_an_actor_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("no")

    monkeypatch.setattr(StreamTask, "_on_committed", fail)

    violations = first_violations([0], SimulationSettings(faults=frozenset(), patience_ms=3_000))

    assert any("failed: ArithmeticError: no [actors]" in text for text in violations)


def test_windows_that_fire_twice_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    fired = SimulatedPanes.fired
    monkeypatch.setattr(SimulatedPanes, "fired", lambda panes, readings, to_ms: fired(panes, readings, to_ms) * 2)

    violations = first_violations(range(20))

    assert any(" rows too many, such as " in text for text in violations)


def test_event_time_ahead_of_the_slowest_channel_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatermarkValve, "_minimum", lambda valve: valve._max_ms)

    violations = first_violations(range(14, 114))

    assert any(
        "rows are late although their sources respect the declared out-of-orderness [output]" in text
        for text in violations
    )


def test_a_row_may_count_twice_under_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimulatedSinkWriter.stage
    monkeypatch.setattr(SimulatedSinkWriter, "stage", lambda writer, rows: stage(writer, rows + rows))

    assert first_violations([a_seed_at_least_once()]) == []


def test_an_unexpected_row_is_detected_under_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimulatedSinkWriter.stage
    stranger = Row(key=0, time_ms=0, parts=((-1, 0),))
    monkeypatch.setattr(SimulatedSinkWriter, "stage", lambda writer, rows: stage(writer, (*rows, stranger)))

    violations = first_violations([a_seed_at_least_once()])

    assert any("rows too many, such as row -1 with value 0" in text for text in violations)


def test_a_job_that_exceeds_its_steps_is_reported_as_without_progress() -> None:
    violations = first_violations(range(10), SimulationSettings(faults=frozenset(), max_steps=1))

    assert violations == ["job-1 has not ended after 1 steps [progress]"]


def test_a_sink_that_forgets_pending_output_loses_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = SimulatedSinkWriter.restore

    def without_pending(writer: SimulatedSinkWriter, prepared: Any) -> None:
        restore(writer, [piece for piece in prepared if not isinstance(piece, PendingFile)])

    monkeypatch.setattr(SimulatedSinkWriter, "restore", without_pending)

    violations = first_violations(range(200), SimulationSettings(faults=frozenset({FaultKind.CRASH, FaultKind.KILL})))

    assert any(" lacks " in text for text in violations)
