"""Tests windows with allowed lateness under random restarts: they emit the same results as Flink's windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import intersection, key_groups_of
from flykka.actors.machines.state.watermarks import BEGINS_AGAIN
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.operators.window import WindowAggregateOperator
from flykka.spark_bridge.state.local_state import LocalStates
from tests.conformance.key_groups.checkpoints import chained_vertex, checkpoint_of_states
from tests.spark_bridge.windows_in_memory import (
    Everything,
    FlinkWindows,
    NumbersOfWindows,
    Result,
    Row,
    Rows,
    RowsBackend,
)

KEYS = 4
VERTEX = JobVertexId("windows")
AGAIN = OperatorSubtaskState(operator_id=OperatorId("windows"), watermark=BEGINS_AGAIN)


@dataclass
class Subtask:
    operator: WindowAggregateOperator[Any, Rows]
    flink: FlinkWindows


@dataclass
class Job:
    """Windows over all keys. If `deferred`, the windows fire only at barriers."""

    windows: EventTimeWindows
    allowed_lateness_ms: int
    deferred: bool = False
    files: dict[str, Rows] = field(default_factory=dict)
    attempts: count[int] = field(default_factory=count)
    numbers: count[int] = field(default_factory=count)
    checkpoints: int = 0
    taken: tuple[list[TaskStateSnapshot], list[FlinkWindows]] | None = None
    subtasks: list[Subtask] = field(default_factory=list)
    local: LocalStates = field(default_factory=lambda: LocalStates(Everything()))

    def begin(self, parallelism: int, *, event_time_begins_again: bool = False) -> None:
        """Start from the last checkpoint, or without state. A source that the checkpoint does not contain restarts
        event time.
        """
        snapshots, before = self.taken or ([], [])
        now = chained_vertex(["windows"], parallelism, KEYS)
        was = chained_vertex(["windows"], len(snapshots) or parallelism, KEYS)
        states = assign(checkpoint_of_states({VERTEX: (was, snapshots)}), [now]).states if snapshots else {}
        self.subtasks = []
        for subtask in range(parallelism):
            owned = key_groups_of(subtask, KEYS, parallelism)
            attempt = f"{subtask}-{next(self.attempts)}"
            local = self.local.of(VERTEX, subtask, parallelism)
            backend = RowsBackend(self.windows, self.files, attempt, owned, local)
            operator: WindowAggregateOperator[Any, Rows] = WindowAggregateOperator(
                OperatorId("windows"),
                self.windows,
                NumbersOfWindows(self.windows, backend),
                backend,
                self.allowed_lateness_ms,
                fires_late_rows_at_once=self.allowed_lateness_ms > 0 and not self.deferred,
            )
            state = states.get((VERTEX, subtask))
            restored = state.operators if state is not None else ()
            operator.restore([*restored, AGAIN] if event_time_begins_again else restored)
            operator.read_restored()
            flink = FlinkWindows(windows=self.windows, allowed_lateness_ms=self.allowed_lateness_ms)
            for piece in (each.of_keys(owned) for each in before):
                flink.contents.update(piece.contents)
                flink.news |= piece.news
            read = (
                each
                for number, each in enumerate(before)
                if intersection(key_groups_of(number, KEYS, len(before)), owned) and each.is_in_checkpoint
            )
            # Windows that had fired in only some of the previous subtasks accept more rows.
            fired = min((each.fired for each in read), default=WATERMARK_MIN)
            flink.fired = WATERMARK_MIN if event_time_begins_again else fired
            self.subtasks.append(Subtask(operator, flink))

    def process(self, rows: list[tuple[int, int]]) -> None:
        numbered: list[Row] = [(key, time, next(self.numbers)) for key, time in rows]
        for subtask in self.subtasks:
            owned, stage = subtask.operator.stores[""].backend.owned, next(self.attempts)
            mine = tuple(row for row in numbered if owned.start <= row[0] <= owned.end)
            if not mine:
                continue
            element = Element(rows=mine, stage=stage, watermark_ms=subtask.flink.watermark)
            output = subtask.operator.process_batch(element)
            if output.updates_state:
                subtask.operator.update_state(stage)
            late = subtask.flink.add(mine)
            assert output.late_rows is not None
            assert output.late_rows() == late
            if not self.deferred and self.allowed_lateness_ms:
                self._compare(output, subtask.flink.fire(subtask.flink.fired))

    def advance(self, number: int, by: int) -> None:
        subtask = self.subtasks[number % len(self.subtasks)]
        was = subtask.flink.watermark
        subtask.flink.watermark = by - 20 if was == WATERMARK_MIN else was + by
        if not self.deferred:
            self._fire(subtask)

    def checkpoint(self, *, savepoint: bool) -> None:
        self.checkpoints += 1
        snapshots = []
        for subtask in self.subtasks:
            if self.deferred:
                self._fire(subtask)
            subtask.operator.snapshot_state(self.checkpoints, everything=savepoint)
            written = subtask.operator.write_snapshot(self.checkpoints, "savepoint" if savepoint else None)
            snapshots.append(TaskStateSnapshot(operators=(written.state,)))
        for subtask in self.subtasks:
            subtask.operator.commit_checkpoint(self.checkpoints)
        self.taken = snapshots, [each.flink.of_keys(key_groups_of(0, KEYS, 1)) for each in self.subtasks]

    def end(self) -> None:
        for subtask in self.subtasks:
            subtask.flink.watermark = WATERMARK_MAX
            self._fire(subtask)
            assert subtask.operator.stores[""].segments.live == ()

    def _fire(self, subtask: Subtask) -> None:
        watermark = subtask.flink.watermark
        output = subtask.operator.advance_watermark(watermark, 0)
        self._compare(output, subtask.flink.fire(watermark))
        subtask.operator.stores[""].segments.check()

    def _compare(self, output: Output[Rows], expected: tuple[Result, ...]) -> None:
        emitted: object = output.rows or ()
        assert emitted == expected
        if output.on_emitted is not None:
            output.on_emitted()


TIMES = st.integers(-20, 30)
ROWS = st.lists(st.tuples(st.integers(0, KEYS - 1), TIMES), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        ROWS,
        ROWS,
        st.tuples(st.integers(0, 3), st.integers(0, 12)),
        st.sampled_from(["checkpoint", "savepoint", "advance all", "begin again"]),
        st.sampled_from([1, 2, 3]),
    ),
    max_size=30,
)


@given(
    sizes=st.sampled_from([(1, 1), (4, 4), (5, 2), (7, 3), (2, 5)]),
    lateness=st.sampled_from([0, 1, 5, 12, 10**20]),
    deferred=st.booleans(),
    steps=STEPS,
)
def test_windows_emit_the_same_results_as_flinks(
    sizes: tuple[int, int],
    lateness: int,
    deferred: bool,
    steps: list[list[tuple[int, int]] | tuple[int, int] | str | int],
) -> None:
    job = Job(EventTimeWindows(size_ms=sizes[0], slide_ms=sizes[1]), lateness, deferred)
    job.begin(2)

    for step in steps:
        match step:
            case list():
                job.process(step)
            case (int() as number, int() as by):
                job.advance(number, by)
            case int() as parallelism:
                job.begin(parallelism)
            case "advance all":
                for number in range(len(job.subtasks)):
                    job.advance(number, 6)
            case "begin again":
                job.begin(len(job.subtasks), event_time_begins_again=True)
            case kind:
                job.checkpoint(savepoint=kind == "savepoint")

    job.end()
