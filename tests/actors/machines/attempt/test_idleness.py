"""A source that has read no rows for a while is marked idle, and does not hold back event time until it reads again."""

from __future__ import annotations

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark, WatermarkStatus
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import IdleDue
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SOURCE,
    Harness,
    batch,
    descriptor,
    down,
    finished,
    source,
    splits,
    trigger,
)

IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
TIMEOUT_MS = 300


def silent() -> Harness:
    return source(idle_timeout_ms=TIMEOUT_MS)


def timers(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "idle"]


def test_only_a_source_with_an_idle_timeout_sets_an_idle_timer() -> None:
    with_timeout = Harness(descriptor(OperatorKind.SOURCE, idle_timeout_ms=TIMEOUT_MS))
    without = Harness(descriptor(OperatorKind.SOURCE))

    assert timers(with_timeout.feed(StartTask(), ChainOpened())) == [TIMEOUT_MS]
    assert timers(without.feed(StartTask(), ChainOpened())) == []


def test_a_source_without_rows_during_its_timeout_becomes_idle() -> None:
    task = silent()

    task.now += TIMEOUT_MS
    effects = task.feed(IdleDue())

    assert (down(effects), timers(effects)) == ([IDLE], [])


def test_the_idle_timeout_restarts_when_a_source_reads_rows() -> None:
    task = silent()
    task.now += 100
    task.feed(splits("a"), finished(0))

    task.now += 200
    too_early = task.feed(IdleDue())
    task.now += 100
    in_time = task.feed(IdleDue())

    assert (down(too_early), timers(too_early)) == ([], [100])
    assert down(in_time) == [IDLE]


def test_a_source_is_not_idle_while_a_stage_reads() -> None:
    task = silent()
    task.feed(splits("a"))

    task.now += 10 * TIMEOUT_MS
    effects = task.feed(IdleDue())

    assert (down(effects), timers(effects)) == ([], [TIMEOUT_MS])


def test_the_time_of_a_snapshot_counts_towards_the_idle_timeout() -> None:
    task = silent()
    task.now += TIMEOUT_MS
    task.feed(trigger(1))

    due = task.feed(IdleDue())
    taken = task.feed(finished(0))

    assert timers(due) == []
    assert down(due + taken)[-1] == IDLE


def test_a_source_becomes_active_before_its_next_watermark_is_sent() -> None:
    task = silent()
    task.now += TIMEOUT_MS
    task.feed(IdleDue())

    woken = task.feed(splits("a"))
    effects = woken + task.feed(finished(0, "rows", event_time_max=1_000))

    assert timers(woken) == [TIMEOUT_MS]
    assert down(effects) == [ACTIVE, batch("rows"), Watermark(timestamp_ms=899)]


def test_an_idle_source_becomes_active_at_the_end_of_data() -> None:
    task = silent()
    task.now += TIMEOUT_MS
    task.feed(IdleDue())

    ended = task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))
    task.now += TIMEOUT_MS
    later = task.feed(IdleDue())

    assert down(ended) == [ACTIVE, Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
    assert (down(later), timers(later)) == ([], [])
