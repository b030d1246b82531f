"""Functions with keyed state and timers for simulated jobs, run by the real function runner and operator.

The functions buffer rows until a timer fires, and emit each row once, so that the expected output is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flykka.actors.machines.joins.interval_segments import IntervalSegments
from flykka.actors.machines.state.keyed_state import StatePart
from flykka.actors.machines.state.segments import Reading, Segment
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.environment import Environment
from flykka.simulation.operators import Join, Process
from flykka.simulation.rows import KeyState, KeyStates, Row, Rows, event_times, within
from flykka.simulation.state import SimulatedStateBackend
from flykka.spark_bridge.functions.co_functions import KeyedCoProcessFunction
from flykka.spark_bridge.functions.contexts import KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Emitted
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor
from flykka.spark_bridge.operators.join import Closing, JoinOperator, RegularJoinOperator, Side
from flykka.spark_bridge.operators.keyed_batch import KeyedOutcome, KeyedResult
from flykka.spark_bridge.operators.keyed_process import TimerFiring
from flykka.spark_bridge.operators.operator import Element
from flykka.spark_bridge.operators.window import Arrived

_BUFFERED = "held"


class _Buffering:
    """Implements a `Process`. A row at or before the watermark counts as late."""

    def __init__(self, behaviour: Process, environment: Environment) -> None:
        self._behaviour = behaviour
        self._environment = environment

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        element = "struct<time: bigint, number: bigint, value: bigint>"
        self._buffer = runtime_context.get_list_state(ListStateDescriptor(_BUFFERED, element))

    def buffer(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        """Buffer a row, or emit it at once if it is late, because no later watermark may fire its timer."""
        timers, delay_ms = ctx.timer_service(), self._behaviour.delay_ms
        self._environment.late_rows += row["time"] <= ctx.current_watermark()
        if row["time"] + delay_ms <= ctx.current_watermark():
            yield {**row, "key": ctx.get_current_key()}
            return
        self._buffer.add(row)
        timers.register_event_time_timer(row["time"] + delay_ms)
        if self._behaviour.in_processing_time:
            timers.register_processing_time_timer(timers.current_processing_time() + delay_ms)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        """Emit the rows that are due, or all rows for a processing-time timer."""
        buffered = self._buffer.get()
        to_ms = timestamp - self._behaviour.delay_ms
        is_event_time = ctx.time_domain() is TimeDomain.EVENT_TIME
        self._buffer.update([each for each in buffered if is_event_time and each["time"] > to_ms])
        for each in buffered:
            if not is_event_time or each["time"] <= to_ms:
                yield {**each, "key": ctx.get_current_key()}


class BufferRows(_Buffering, KeyedProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        return self.buffer(row, ctx)


class BufferRowsOfTwoInputs(_Buffering, KeyedCoProcessFunction):
    """Buffers the rows of two inputs in one state. The lower watermark counts, so that no rows are late."""

    def process_element1(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        return self.buffer(row, ctx)

    def process_element2(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        return self.buffer(row, ctx)


class SimulatedKeyedState(SimulatedStateBackend[KeyState]):
    def keep(self, rows: KeyStates) -> Segment[KeyStates] | None:
        if not rows:
            return None
        event_timers = (each.event_timers[0] for each in rows if each.event_timers)
        processing_timers = (each.processing_timers[0] for each in rows if each.processing_timers)
        return Segment(
            batch_id=self.new_id(),
            frame=rows,
            rows=len(rows),
            version=max(each.version for each in rows),
            first_timers_ms=(min(event_timers, default=None), min(processing_timers, default=None)),
        )

    def read(self, readings: Sequence[Reading[KeyStates]]) -> KeyStates:
        return _newest(each for reading in readings for each in reading.segment.frame)

    def merge(self, rows: KeyStates, *, are_oldest: bool) -> KeyStates:
        """Return the newest state of each key. If the segments are the oldest, keys whose state was deleted are left
        out.
        """
        return tuple(each for each in _newest(rows) if not (are_oldest and each.is_deleted))


class SimulatedKeyedFunction:
    sees_watermarks = False

    def __init__(self, behaviour: Process, descriptor: TaskDeploymentDescriptor, environment: Environment) -> None:
        self.backend = SimulatedKeyedState(descriptor, environment)
        self._behaviour = behaviour
        function = (BufferRowsOfTwoInputs if behaviour.has_two_inputs else BufferRows)(behaviour, environment)
        self._runner = KeyedFunctionRunner(function, columns=("key", "time", "number", "value"))
        self._runner.open()

    def processed(
        self, element: Element[Rows], readings: Sequence[Reading[KeyStates]], version: int
    ) -> KeyedResult[Rows, KeyStates]:
        owned, max_parallelism = self.backend.owned, self.backend.max_parallelism
        assert element.rows == within(element.rows, owned, max_parallelism), "rows have reached the wrong subtask"
        rows = [
            (row, {"time": row.time_ms, "number": number, "value": value})
            for row in element.rows
            for number, value in row.parts
        ]
        keys = sorted({row.key for row, _ in rows})
        columns = self._columns(keys, readings)
        emitted = self._runner.process(
            [keys.index(row.key) for row, _ in rows],
            keys,
            [part for _, part in rows],
            [row.time_ms for row, _ in rows],
            columns,
            inputs=[row.input for row, _ in rows] if self._behaviour.has_two_inputs else None,
            watermark_ms=element.watermark_ms,
            processing_time_ms=element.processing_time_ms,
        )
        return self._result_of(keys, columns, emitted, version)

    def fired(
        self, firing: TimerFiring, readings: Sequence[Reading[KeyStates]], version: int
    ) -> KeyedResult[Rows, KeyStates]:
        timers_by_state = [
            (each, _timers(each, firing.domain)) for reading in readings for each in reading.segment.frame
        ]
        due = {
            each.key
            for each, timers in timers_by_state
            if timers
            and timers[0] <= firing.due_ms
            and (timers[0] > firing.after_ms or each.version > firing.after_version)
        }
        keys = sorted(due)
        columns = self._columns(keys, readings)
        emitted = self._runner.fire(
            firing.domain,
            keys,
            columns,
            watermark_ms=firing.watermark_ms,
            processing_time_ms=firing.processing_time_ms,
        )
        later = (timers[0] for _, timers in timers_by_state if timers and timers[0] > firing.due_ms)
        return self._result_of(keys, columns, emitted, version, min(later, default=None))

    def _columns(self, keys: Sequence[int], readings: Sequence[Reading[KeyStates]]) -> StateColumns:
        by_key = {each.key: each for each in self.backend.read(readings)}
        states = [by_key.get(key) for key in keys]
        return StateColumns(
            values={_BUFFERED: [None if each is None else _as_values(each.parts) for each in states]},
            touched_ms={},
            event_timers=[None if each is None else list(each.event_timers) for each in states],
            processing_timers=[None if each is None else list(each.processing_timers) for each in states],
        )

    def _result_of(
        self,
        keys: Sequence[int],
        columns: StateColumns,
        emitted: Emitted,
        version: int,
        next_timer_ms: int | None = None,
    ) -> KeyedResult[Rows, KeyStates]:
        changed = tuple(
            KeyState(
                key=keys[slot],
                version=version,
                parts=tuple(
                    (each["time"], each["number"], each["value"]) for each in columns.values[_BUFFERED][slot] or ()
                ),
                event_timers=tuple(columns.event_timers[slot] or ()),
                processing_timers=tuple(columns.processing_timers[slot] or ()),
            )
            for slot in sorted(columns.changed)
        )
        rows = self._behaviour.released(
            Row(row["key"], row["time"], ((row["number"], row["value"]),)) for row in emitted.rows
        )
        outcome = KeyedOutcome(segment=self.backend.keep(changed), next_timer_ms=next_timer_ms)
        return KeyedResult(rows=rows, outcome=lambda: outcome)


def _newest(states: Iterable[KeyState]) -> KeyStates:
    newest: dict[int, KeyState] = {}
    for each in states:
        if each.key not in newest or newest[each.key].version < each.version:
            newest[each.key] = each
    return tuple(newest[key] for key in sorted(newest))


def _timers(state: KeyState, domain: TimeDomain) -> tuple[int, ...]:
    return state.event_timers if domain is TimeDomain.EVENT_TIME else state.processing_timers


def _as_values(parts: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [{"time": time_ms, "number": number, "value": value} for time_ms, number, value in parts]


class SimulatedSide(SimulatedStateBackend[Row]):
    """The rows that one side of a join retains: by event time, or all rows if `retained_ms` is None."""

    def __init__(
        self, name: str, retained_ms: int | None, descriptor: TaskDeploymentDescriptor, environment: Environment
    ) -> None:
        super().__init__(descriptor, environment)
        self.name = f"{name}-"
        self._retained_ms = retained_ms

    def keep(self, rows: Rows) -> Segment[Rows] | None:
        times = event_times(rows)
        if times is None:
            return None
        first_ms, last_ms = (0, 0) if self._retained_ms is None else times
        return Segment(batch_id=self.new_id(), frame=rows, rows=len(rows), first_ms=first_ms, last_ms=last_ms)

    def read(self, readings: Sequence[Reading[Rows]]) -> Rows:
        return tuple(
            row
            for reading in readings
            for row in reading.segment.frame
            if self._is_within(row, reading.from_ms, reading.until_ms)
        )

    def load(self, part: StatePart) -> Rows:
        """Return the rows of files that the join still needs. Raises `FileNotFoundError`."""
        rows, closed_to = super().load(part), part.bounds.closed_to_ms
        if closed_to is None or self._retained_ms is None:
            return rows
        from_ms = closed_to - self._retained_ms
        return tuple(row for row in rows if self._is_within(row, from_ms, None))

    def _is_within(self, row: Row, from_ms: int | None, until_ms: int | None) -> bool:
        if self._retained_ms is None:
            return True
        return (from_ms is None or row.time_ms >= from_ms) and (until_ms is None or row.time_ms < until_ms)


class SimulatedJoining:
    """Implements `Joining`. A late row is counted, and has no matches."""

    meets_at_once = True

    def __init__(self, behaviour: Join, descriptor: TaskDeploymentDescriptor, environment: Environment) -> None:
        self._behaviour = behaviour
        self._descriptor = descriptor
        self._environment = environment
        self._backends: dict[Side, SimulatedSide] = {}

    def backend(self, side: Side, segments: IntervalSegments[Rows]) -> SimulatedSide:
        retained_ms = None if self._behaviour.bounds is None else segments.retained_ms
        side_backend = self._backends[side] = SimulatedSide(
            side.value, retained_ms, self._descriptor, self._environment
        )
        return side_backend

    def arrived(self, side: Side, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Rows]:
        rows, backend = element.rows, self._backends[side]
        assert rows == within(rows, backend.owned, backend.max_parallelism), "rows have reached the wrong subtask"
        has_time = self._behaviour.bounds is not None and closed_to_ms is not None
        retained = tuple(row for row in rows if not (has_time and row.time_ms < (closed_to_ms or 0)))
        late = len(rows) - len(retained)
        self._environment.late_rows += late
        return Arrived(segment=backend.keep(retained), late_rows=late)

    def joined(self, side: Side, segment: Segment[Rows], met: Sequence[Reading[Rows]]) -> Rows:
        sides = {side: segment.frame, side.other: self._backends[side.other].read(met)}
        return self._behaviour.pairs(sides[Side.LEFT], sides[Side.RIGHT])

    def closed(self, closings: Sequence[Closing[Rows]]) -> Rows:
        return tuple(row for closing in closings for row in self._unmatched(closing))

    def _unmatched(self, closing: Closing[Rows]) -> Rows:
        rows, others = (
            self._backends[closing.side].read(closing.readings),
            self._backends[closing.side.other].read(closing.met),
        )
        return self._behaviour.unmatched(closing.side, rows, others)


def join_operator(
    operator_id: OperatorId, behaviour: Join, descriptor: TaskDeploymentDescriptor, environment: Environment
) -> JoinOperator[Rows, Rows]:
    joining, outer = SimulatedJoining(behaviour, descriptor, environment), frozenset(behaviour.outer)
    operator = RegularJoinOperator if behaviour.bounds is None else JoinOperator
    return operator(operator_id, behaviour.interval, joining, joining.backend, behaviour.left_inputs, outer)
