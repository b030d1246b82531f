"""Readers of aligned sources stay within the configured drift of the slowest reader in their group."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.effects import Ignore, StartTimer, Tell
from flykka.actors.machines.sources.source_events import AttemptEnded, SourcesReset, SubtaskReset
from flykka.actors.machines.sources.watermark_alignments import AlignmentEffect, AlignmentEvent, WatermarkAlignments
from flykka.messages.control.job_control import WatermarkAlignmentDue
from flykka.messages.graph.job_graph import JobVertex, WatermarkAlignment
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.source import AlignWatermark, ReportedWatermark
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.machines.scheduling.splits import attempt_of

ALIGNMENT = WatermarkAlignment(group="g", max_drift_ms=10, update_interval_ms=100)
DUE = WatermarkAlignmentDue(group="g")
TIMER = StartTimer(key="watermark-alignment/g", delay_ms=100, message=DUE)


def aligned(name: str, alignment: WatermarkAlignment | None = ALIGNMENT) -> JobVertex:
    return replace(vertex(name), watermark_alignment=alignment)


def alignments(*vertices: JobVertex) -> WatermarkAlignments:
    return WatermarkAlignments(graph_of(*(vertices or (aligned("left"), aligned("right")))))


def reader_attempt(source: str, number: int = 0) -> ExecutionAttemptId:
    return attempt_of(0, number, JobVertexId(source))


def reported_watermark(source: str, watermark_ms: int, *, number: int = 0, is_idle: bool = False) -> ReportedWatermark:
    return ReportedWatermark(attempt=reader_attempt(source, number), watermark_ms=watermark_ms, is_idle=is_idle)


def handle_events(machine: WatermarkAlignments, *events: AlignmentEvent) -> list[AlignmentEffect]:
    effects: list[AlignmentEffect] = []
    for event in events:
        effects += machine.handle(event)
        machine.check()
    return effects


def bounds_by_source(machine: WatermarkAlignments, *events: AlignmentEvent) -> dict[str, int]:
    """Return the bounds that readers receive at the next tick, by the first letter of their source."""
    handle_events(machine, *events)
    effects = handle_events(machine, DUE)
    messages = [effect.message for effect in effects if isinstance(effect, Tell)]
    aligned = [message for message in messages if isinstance(message, AlignWatermark)]
    return {message.attempt.split("_")[1]: message.max_watermark_ms for message in aligned}


def test_readers_are_notified_at_intervals_and_only_of_changes() -> None:
    machine = alignments()

    assert handle_events(machine, reported_watermark("left", 5), reported_watermark("right", 1_000)) == [TIMER]
    assert bounds_by_source(machine) == {"left": 15, "right": 15}
    assert bounds_by_source(machine, reported_watermark("right", 2_000)) == {}
    assert bounds_by_source(machine, reported_watermark("left", 7)) == {"left": 17, "right": 17}


def test_a_reader_without_a_report_holds_back_the_others() -> None:
    machine = alignments()

    assert bounds_by_source(machine, reported_watermark("right", 1_000)) == {"right": WATERMARK_MIN}
    assert bounds_by_source(machine, reported_watermark("left", WATERMARK_MIN)) == {"left": WATERMARK_MIN}
    assert bounds_by_source(machine, reported_watermark("left", 0)) == {"left": 10, "right": 10}


def test_an_idle_or_finished_reader_does_not_hold_back_others() -> None:
    machine = alignments()
    handle_events(machine, reported_watermark("left", 5), reported_watermark("right", 1_000))

    assert bounds_by_source(machine, reported_watermark("left", 5, is_idle=True)) == {"left": 1_010, "right": 1_010}
    assert bounds_by_source(machine, reported_watermark("left", 5)) == {"left": 15, "right": 15}
    assert bounds_by_source(machine, reported_watermark("left", WATERMARK_MAX)) == {"left": 1_010, "right": 1_010}
    assert bounds_by_source(machine, reported_watermark("right", WATERMARK_MAX)) == {
        "left": WATERMARK_MAX,
        "right": WATERMARK_MAX,
    }


def test_a_finished_reader_stays_finished_until_a_new_attempt_starts() -> None:
    machine = alignments()
    handle_events(machine, reported_watermark("left", WATERMARK_MAX), reported_watermark("right", 1_000))

    ended = AttemptEnded(attempt=reader_attempt("left"))
    assert bounds_by_source(machine, ended) == {"left": 1_010, "right": 1_010}
    begun = SubtaskReset(vertex_id=JobVertexId("left"), subtask=0, checkpoint_id=None)
    assert bounds_by_source(machine, begun) == {"right": WATERMARK_MIN}


def test_a_restarted_reader_is_awaited_and_notified_again() -> None:
    machine = alignments()
    bounds_by_source(machine, reported_watermark("left", 5), reported_watermark("right", 8))

    assert bounds_by_source(machine, AttemptEnded(attempt=reader_attempt("left"))) == {"right": WATERMARK_MIN}
    assert bounds_by_source(machine, reported_watermark("left", 5, number=1)) == {"left": 15, "right": 15}
    assert handle_events(machine, reported_watermark("left", 900)) == [
        Ignore(reason=f"{reader_attempt('left')} has ended")
    ]
    assert bounds_by_source(machine, SourcesReset(), reported_watermark("left", 1, number=2)) == {"left": WATERMARK_MIN}


def test_groups_are_independent_and_each_source_has_its_drift() -> None:
    other = replace(ALIGNMENT, group="h")
    machine = alignments(
        aligned("left"), aligned("right", replace(ALIGNMENT, max_drift_ms=50)), aligned("far", other), vertex("free")
    )

    handle_events(machine, reported_watermark("far", 10_000), reported_watermark("free", 20_000))
    assert bounds_by_source(machine, reported_watermark("left", 5), reported_watermark("right", 6)) == {
        "left": 15,
        "right": 55,
    }


@given(st.lists(st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 100), st.booleans(), st.booleans())))
def test_no_reader_may_exceed_the_slowest_plus_the_drift(steps: list[tuple[str, int, bool, bool]]) -> None:
    machine, known = alignments(), dict.fromkeys(("left", "right"), (WATERMARK_MIN, False))
    for source, watermark_ms, is_idle, is_due in steps:
        handle_events(machine, reported_watermark(source, watermark_ms, is_idle=is_idle))
        known[source] = watermark_ms, is_idle
        if is_due:
            slowest_ms = min((each for each, idle in known.values() if not idle), default=WATERMARK_MAX)
            assert all(allowed <= max(slowest_ms, slowest_ms + 10) for allowed in bounds_by_source(machine).values())
