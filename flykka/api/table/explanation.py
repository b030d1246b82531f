"""EXPLAIN: the operators of a query, their state and how long they keep it, and the changelog of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flykka.api.streams.transformation import leading_to
from flykka.runtime.durations import format_ms
from flykka.spark_bridge.operators.group_aggregate import GroupAggregateCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import PairsCode, RegularJoinCode
from flykka.spark_bridge.operators.keyed_rows import DropDuplicatesCode, ProcessTableCode, RowPerKeyCode
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode

if TYPE_CHECKING:
    from flykka.actors.machines.joins.interval_segments import Interval
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Transformation
    from flykka.spark_bridge.operators.code import OperatorCode

_FOR_EVER = "forever"
_OF_JOINS = (
    "; a join drops old rows if its ON bounds the event times of both sides, as in b.at BETWEEN a.at AND a.at +"
    " INTERVAL 10 MINUTES, or after set_sql_state_ttl(...)"
)


def explanation(stream: DataStream, operators: Iterable[Transformation]) -> str:
    """Describe the operators of a query, inputs first."""
    lines, warnings = _told(operators)
    lines += [f"changelog  {stream.changelog}", f"event time {stream.flow.type.event_time or 'none'}"]
    return "\n".join([*lines, *warnings])


def explanation_of_inserts(inserts: Sequence[tuple[str, DataStream]]) -> str:
    """Describe the operators of INSERTs that are one job; each is a table and its stream."""
    inputs = tuple(each for _, stream in inserts for each in stream.flow.inputs)
    lines, warnings = _told(leading_to(inputs))
    lines += [f"into {table}  {stream.changelog}" for table, stream in inserts]
    return "\n".join([*lines, *warnings])


def _told(operators: Iterable[Transformation]) -> tuple[list[str], list[str]]:
    """Return lines for operators, and a warning about those whose state never expires."""
    numbers: dict[Transformation, int] = {}
    lines = ["operators"]
    endless: list[str] = []
    has_endless_join = False
    for number, made in enumerate(operators, start=1):
        numbers[made] = number
        inputs = ", ".join(str(numbers[each.source]) for each in made.inputs if each.source in numbers)
        kept = _kept(made.code)
        lines.append(f"  {number}. {made.name}{f'  <- {inputs}' if inputs else ''}")
        lines += (f"       keeps {each}" for each in kept)
        if any(each.endswith(_FOR_EVER) for each in kept):
            endless.append(f"{number}. {made.name}")
            has_endless_join |= isinstance(made.code, PairsCode)
    if not endless:
        return lines, []
    warning = (
        f"WARNING: the state of {', '.join(endless)} never expires: it grows with every new key. GROUP BY window(...)"
        f" only keeps open windows{_OF_JOINS if has_endless_join else ''}"
    )
    return lines, [warning]


def _kept(code: OperatorCode) -> tuple[str, ...]:
    """Describe the state of an operator, and when it expires."""
    match code:
        case RegularJoinCode(interval=interval):
            end = f"for {format_ms(interval.upper_ms)} of processing time" if interval.has_upper_bound else _FOR_EVER
            return (f"the rows of both sides {end}",)
        case PairsCode(interval=interval):
            bounds = {Side.LEFT: interval, Side.RIGHT: interval.reversed}
            return tuple(f"the rows of the {side} side {_until(each)}" for side, each in bounds.items())
        case TemporalJoinCode():
            return (
                "the rows of the left side until the watermark reaches their time",
                "the versions of the right side until the watermark reaches the next one of their key, the last one"
                f" {_FOR_EVER}",
            )
    kept = _of_keys(code)
    return () if kept is None else (kept,)


def _until(interval: Interval) -> str:
    if not interval.has_upper_bound:
        return _FOR_EVER
    after = f" by {format_ms(interval.through_after_ms)}" if interval.through_after_ms else ""
    return f"until the watermark passes their time{after}"


def _of_keys(code: OperatorCode) -> str | None:
    match code:
        case GroupAggregateCode():
            return f"the aggregates of each key {_FOR_EVER}"
        case WindowCode(windows=windows):
            size = format_ms(windows.size_ms + code.allowed_lateness_ms)
            return f"{_parts(code)} of each window until the watermark reaches its end, {size} after its start"
        case SessionWindowCode(gap_ms=gap_ms):
            return f"aggregates of each session until the watermark is {format_ms(gap_ms)} after its last row"
        case DropDuplicatesCode(within_ms=None):
            return f"the keys of all rows {_FOR_EVER}"
        case DropDuplicatesCode(within_ms=int(within_ms)):
            return f"the keys of rows for {format_ms(within_ms)} of event time"
        case RowPerKeyCode() | ProcessTableCode():
            return f"the state of each key {_FOR_EVER}"
    return None


def _parts(code: WindowCode) -> str:
    return "the aggregates" if code.plan.state_schema.merged_by else "the rows"
