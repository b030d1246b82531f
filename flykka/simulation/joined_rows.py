"""The joins of a simulated job, run by the product's operator: state by side, on rows that can be counted."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.joins.interval_segments import IntervalSegments
from flykka.actors.machines.state.keyed_state import StatePart
from flykka.actors.machines.state.segments import Reading, Segment
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.operators import Join
from flykka.simulation.rows import Row, Rows, event_times, within
from flykka.simulation.state import SimulatedStateBackend
from flykka.simulation.world import World
from flykka.spark_bridge.operators.join import Closing, JoinOperator, RegularJoinOperator, Side
from flykka.spark_bridge.operators.operator import Element
from flykka.spark_bridge.operators.window import Arrived


class SimulatedSide(SimulatedStateBackend[Row]):
    """The rows that a join keeps of a side: by event time, or (`retained_ms` is None) as if all came at once."""

    def __init__(self, name: str, retained_ms: int | None, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        super().__init__(descriptor, world)
        self.name = f"{name}-"
        self._retained_ms = retained_ms

    def keep(self, rows: Rows) -> Segment[Rows] | None:
        """A segment of these rows."""
        times = event_times(rows)
        if times is None:
            return None
        first_ms, last_ms = (0, 0) if self._retained_ms is None else times
        return Segment(batch_id=self.new_id(), frame=rows, rows=len(rows), first_ms=first_ms, last_ms=last_ms)

    def read(self, readings: Sequence[Reading[Rows]]) -> Rows:
        """The rows of segments within their bounds."""
        return tuple(
            row
            for reading in readings
            for row in reading.segment.frame
            if self._is_within(row, reading.from_ms, reading.until_ms)
        )

    def load(self, part: StatePart) -> Rows:
        """The rows of files that the join still needs. Raises `FileNotFoundError`."""
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
    """Implements `Joining`. A row that comes late is counted, and meets none."""

    meets_at_once = True

    def __init__(self, behaviour: Join, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self._behaviour = behaviour
        self._descriptor = descriptor
        self._world = world
        self._backends: dict[Side, SimulatedSide] = {}

    def backend(self, side: Side, segments: IntervalSegments[Rows]) -> SimulatedSide:
        """The backend of a side's state."""
        retained_ms = None if self._behaviour.bounds is None else segments.retained_ms
        made = self._backends[side] = SimulatedSide(side.value, retained_ms, self._descriptor, self._world)
        return made

    def arrived(self, side: Side, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Rows]:
        """The rows to keep of a batch."""
        rows, backend = element.rows, self._backends[side]
        assert rows == within(rows, backend.owned, backend.max_parallelism), "rows have come to the wrong subtask"
        has_time = self._behaviour.bounds is not None and closed_to_ms is not None
        kept = tuple(row for row in rows if not (has_time and row.time_ms < (closed_to_ms or 0)))
        late = len(rows) - len(kept)
        self._world.late_rows += late
        return Arrived(segment=backend.keep(kept), late_rows=late)

    def joined(self, side: Side, segment: Segment[Rows], met: Sequence[Reading[Rows]]) -> Rows:
        """The pairs of a batch with rows of the other side."""
        sides = {side: segment.frame, side.other: self._backends[side.other].read(met)}
        return self._behaviour.pairs(sides[Side.LEFT], sides[Side.RIGHT])

    def closed(self, closings: Sequence[Closing[Rows]]) -> Rows:
        """The rows that are through and have met none."""
        return tuple(row for closing in closings for row in self._unmatched(closing))

    def _unmatched(self, closing: Closing[Rows]) -> Rows:
        rows, others = (
            self._backends[closing.side].read(closing.readings),
            self._backends[closing.side.other].read(closing.met),
        )
        return self._behaviour.unmatched(closing.side, rows, others)


def join_operator(
    operator_id: OperatorId, behaviour: Join, descriptor: TaskDeploymentDescriptor, world: World
) -> JoinOperator[Rows, Rows]:
    """The join of one attempt."""
    joining, outer = SimulatedJoining(behaviour, descriptor, world), frozenset(behaviour.outer)
    operator = RegularJoinOperator if behaviour.bounds is None else JoinOperator
    return operator(operator_id, behaviour.interval, joining, joining.backend, behaviour.left_inputs, outer)
