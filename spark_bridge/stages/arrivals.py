"""What becomes of a batch that reaches windows: state, without the rows that come too late.

A row is late when its last window is closed (in Flink's words, when `isWindowLate` holds for each of its windows).
Rows in no window are neither late nor kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.spark_bridge.program.aggregates import WINDOW
from flykka.spark_bridge.rows.materialise import counted, numbers_of
from flykka.spark_bridge.stages.windows import before, event_time, in_windows, local_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.batch import BatchRef
    from flykka.spark_bridge.program.code import WindowCode
    from flykka.spark_bridge.stages.segment_blocks import SegmentBlocks
    from flykka.spark_bridge.state.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A batch that was looked at: what is kept of it, and how many input rows came too late and are dropped.

    Where late rows go to a side output none is dropped, and `late` has them; None where there are none.
    """

    segment: Segment[DataFrame] | None
    late_rows: int = 0
    late: DataFrame | None = None


def look_at(code: WindowCode, blocks: SegmentBlocks, ref: BatchRef, rows: DataFrame, closed_to: int | None) -> Arrived:
    """Make state of a batch. Only where rows may be late, or are no state yet, it costs a job.

    The windows that start at `closed_to` or before are closed, fired or not; None: none is.
    """
    if WINDOW in rows.columns:
        return _state(code, blocks, ref, rows, closed_to)
    return _rows(code, blocks, rows, closed_to)


def _state(code: WindowCode, blocks: SegmentBlocks, ref: BatchRef, state: DataFrame, closed_to: int | None) -> Arrived:
    """What was aggregated before the exchange is state as it is, unless some of it is late."""
    first, last = ref.event_time_min, ref.event_time_max
    assert first is not None, f"the state {ref.batch_id} does not say of which panes it is"
    assert last is not None, f"the state {ref.batch_id} does not say of which panes it is"
    if closed_to is None or first >= code.windows.next_start(closed_to):
        last_ms = last - code.windows.slide_ms + 1
        return Arrived(segment=blocks.adopt(ref, state, first_ms=first, last_ms=last_ms, closed_to=closed_to))
    late = before(F.col(WINDOW), code.windows.next_start(closed_to))
    observation, observed = counted(state, {"late": code.plan.rows_behind(late)})
    segment = blocks.make(observed.where(~late), closed_to=closed_to)
    return Arrived(segment=segment, late_rows=int(numbers_of(observation).get("late") or 0))


def _rows(code: WindowCode, blocks: SegmentBlocks, rows: DataFrame, closed_to: int | None) -> Arrived:
    """Rows that come as they are become state here."""
    rows = in_windows(code, rows)
    if closed_to is None:
        return Arrived(segment=blocks.make(local_state(code, rows)))
    late = before(event_time(code), code.windows.next_start(closed_to))
    observation, observed = counted(rows, {"late": F.count_if(late)})
    segment = blocks.make(local_state(code, observed.where(~late)), closed_to=closed_to)
    late_rows = int(numbers_of(observation).get("late") or 0)
    if code.side_outputs_late_data:
        return Arrived(segment=segment, late=rows.where(late) if late_rows else None)
    return Arrived(segment=segment, late_rows=late_rows)
