"""EXPLAIN: describes a query's operators, how long each keeps its state, and the changelog of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flykka.api.streams.transformation import format_columns, leading_to
from flykka.runtime.durations import format_ms
from flykka.spark_bridge.operators.changes import ChangesCode, JoinedBySpark, Recomputed
from flykka.spark_bridge.operators.group_aggregate import GroupAggregateCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import PairsCode, RegularJoinCode
from flykka.spark_bridge.operators.keyed_rows import DropDuplicatesCode, ProcessTableCode, RowPerKeyCode
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode
from flykka.spark_bridge.operators.upsert_materialiser import UpsertMaterialiserCode
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.worker.weighted_results import JoinChanges

if TYPE_CHECKING:
    from flykka.actors.machines.joins.interval_segments import Interval
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Transformation
    from flykka.spark_bridge.operators.code import OperatorCode

_FOR_EVER = "forever"
_OF_JOINS = (
    "; an INNER or OUTER JOIN of appended rows drops old ones if its ON bounds the event times of both sides, as in"
    " b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES"
)
_TIME_TO_LIVE = "; set_sql_state_ttl(...) limits how long joins and recomputed results keep rows"


def explanation(stream: DataStream, operators: Iterable[Transformation]) -> str:
    lines, warnings = _told(operators)
    lines += [f"changelog  {stream.changelog}", f"event time {stream.flow.type.event_time or 'none'}"]
    return "\n".join([*lines, *warnings])


def explanation_of_inserts(inserts: Sequence[tuple[str, DataStream]]) -> str:
    inputs = tuple(each for _, stream in inserts for each in stream.flow.inputs)
    lines, warnings = _told(leading_to(inputs))
    lines += [f"into {table}  {stream.changelog}" for table, stream in inserts]
    return "\n".join([*lines, *warnings])


def _told(operators: Iterable[Transformation]) -> tuple[list[str], list[str]]:
    numbers: dict[Transformation, int] = {}
    lines = ["operators"]
    endless: list[str] = []
    costly: list[str] = []
    hints: set[str] = set()
    for number, made in enumerate(operators, start=1):
        numbers[made] = number
        inputs = ", ".join(str(numbers[each.source]) for each in made.inputs if each.source in numbers)
        kept, name = _kept(made.code), f"{number}. {made.name}"
        lines.append(f"  {name}{f'  <- {inputs}' if inputs else ''}")
        lines += (f"       keeps {each}" for each in kept)
        if any(each.endswith(_FOR_EVER) for each in kept):
            endless.append(name)
            hints |= {_OF_JOINS} if _is_join(made.code) else set()
            hints |= {_TIME_TO_LIVE} if _has_time_to_live(made.code) else set()
        if isinstance(made.code, ChangesCode) and _is_without_keys(made.code):
            costly.append(f"WARNING: {name} {_cost(made.code)}")
    if not endless:
        return lines, costly
    warning = (
        f"WARNING: the state of {', '.join(endless)} never expires: it grows with every new key. GROUP BY window(...)"
        f" only keeps open windows{''.join(sorted(hints))}"
    )
    return lines, [warning, *costly]


def _is_join(code: OperatorCode) -> bool:
    if isinstance(code, ChangesCode):
        is_recomputed = isinstance(code.results, Recomputed) and isinstance(code.results.compute, JoinedBySpark)
        return is_recomputed or isinstance(code.function, JoinChanges)
    return isinstance(code, PairsCode)


def _has_time_to_live(code: OperatorCode) -> bool:
    """True if a time-to-live would apply to the operator."""
    return isinstance(code, RegularJoinCode) or (isinstance(code, ChangesCode) and not _is_without_keys(code))


def _is_without_keys(code: ChangesCode) -> bool:
    return format_columns(*code.keys) == format_columns(only_key())


def _cost(code: ChangesCode) -> str:
    if _is_join(code):
        return "has no equality condition: each changed row is compared with all rows of the other side"
    return "has no keys: each batch computes its results from all current rows"


def _kept(code: OperatorCode) -> tuple[str, ...]:
    match code:
        case RegularJoinCode(interval=interval):
            end = f"for {format_ms(interval.upper_ms)} of processing time" if interval.has_upper_bound else _FOR_EVER
            return (f"the rows of both sides {end}",)
        case PairsCode(interval=interval):
            bounds = {Side.LEFT: interval, Side.RIGHT: interval.reversed}
            return tuple(f"the rows of the {side} side {_until(each)}" for side, each in bounds.items())
        case ChangesCode(time_to_live_ms=ms):
            rows = " of both sides" if _is_join(code) else "" if _is_without_keys(code) else " of each key"
            end = (
                _FOR_EVER if ms is None else f"for {format_ms(ms)} of processing time after the last change of the key"
            )
            return (f"the current rows{rows} {end}",)
        case UpsertMaterialiserCode():
            return (f"the current rows of each key of the table, and the one that it has, {_FOR_EVER}",)
        case TemporalJoinCode():
            return (
                "the rows of the left side until the watermark reaches their time",
                "the versions of the right side until the watermark reaches the next version of the key, the latest one"
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
