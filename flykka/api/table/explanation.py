"""EXPLAIN: the operators of a query, what each keeps and for how long, and whether the rows of the result stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.runtime.durations import format_ms
from flykka.spark_bridge.operators.code import GroupAggregateCode, WindowCode
from flykka.spark_bridge.operators.keyed_rows_code import DropDuplicatesCode, KeptRowsCode, ProcessTableCode
from flykka.spark_bridge.operators.session_windows import SessionWindowCode

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Transformation
    from flykka.spark_bridge.operators.code import OperatorCode

_FOR_EVER = "for ever"


def explanation(stream: DataStream, operators: Iterable[Transformation]) -> str:
    """The text for the operators of a query, inputs before what they feed."""
    numbers: dict[Transformation, int] = {}
    lines, endless = ["operators"], []
    for number, made in enumerate(operators, start=1):
        numbers[made] = number
        inputs = ", ".join(str(numbers[each.source]) for each in made.inputs if each.source in numbers)
        kept = _kept(made.code)
        lines.append(f"  {number}. {made.name}{f'  <- {inputs}' if inputs else ''}")
        if kept is not None:
            lines.append(f"       keeps {kept}")
            if kept.endswith(_FOR_EVER):
                endless.append(f"{number}. {made.name}")
    lines.append(f"changelog  {stream.changelog}")
    lines.append(f"event time {stream._type.event_time or 'none'}")
    if endless:
        lines.append(
            f"WARNING: the state of {', '.join(endless)} never ends: it grows with every new key. GROUP BY window(...)"
            " keeps what is open only"
        )
    return "\n".join(lines)


def _kept(code: OperatorCode) -> str | None:
    """Tell what an operator keeps, and until when."""
    match code:
        case GroupAggregateCode():
            return f"the aggregates of each key {_FOR_EVER}"
        case WindowCode(windows=windows):
            size = format_ms(windows.size_ms + code.allowed_lateness_ms)
            return f"{_parts(code)} of each window until the watermark has come to its end, {size} after its start"
        case SessionWindowCode(gap_ms=gap_ms):
            return f"aggregates of each session until the watermark is {format_ms(gap_ms)} behind its last row"
        case DropDuplicatesCode(within_ms=None):
            return f"the keys of all rows that were seen {_FOR_EVER}"
        case DropDuplicatesCode(within_ms=int(within_ms)):
            return f"the keys of rows that were seen for {format_ms(within_ms)} of event time"
        case KeptRowsCode() | ProcessTableCode():
            return f"what it has of each key {_FOR_EVER}"
    return None


def _parts(code: WindowCode) -> str:
    return "the aggregates" if code.plan.state_schema.merged_by else "the rows"
