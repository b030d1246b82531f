"""Summaries of streams and environments as labelled lines: the text of `repr`, and an HTML table in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.api.streams.transformation import leading_to
from flykka.messages.graph.job_graph import OperatorKind
from flykka.runtime.durations import format_ms
from flykka.views.html.markup import display, fragment, head, labelled, quiet

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Transformation

SHOWN_OPERATORS = 8
_LABELS = {OperatorKind.SOURCE: "source", OperatorKind.TIMESTAMPS_AND_WATERMARKS: "watermarks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    title: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        lines = [("columns", columns)] if columns else []
        return "\n".join([self.title, *(f"  {label:<12}{text}" for label, text in (*lines, *self.facts))])

    def html(self) -> str:
        columns = [part for name, kind in self.columns for part in (", ", f"{name} ", quiet(kind, "span"))]
        lines = [("columns", fragment(*columns[1:]))] if columns else []
        return display(head(self.title), labelled([*lines, *self.facts]))


def stream_summary(kind: str, flow: Dataflow, next_step: str) -> Summary:
    before, row_type = leading_to(flow.inputs), flow.type
    facts = [
        (
            "event time",
            str(row_type.event_time or "none: windows need a source with a timestamp column and watermarks"),
        ),
        *([] if row_type.changelog == APPEND_ONLY else [("changelog", str(row_type.changelog))]),
        *(
            (_LABELS[operator.kind], f"{operator}, {watermarks(operator)}")
            for operator in before
            if operator.kind in _LABELS
        ),
        ("operators", _operator_names(before)),
        ("next", next_step),
    ]
    columns = tuple((field.name, field.dataType.simpleString()) for field in row_type.prototype.schema)
    return Summary(title=f"{kind} of {flow}", facts=tuple(facts), columns=columns)


def program_facts(program: Program) -> Iterator[tuple[str, str]]:
    operators = program.transformations
    if not operators:
        yield "program", "no operators since the last job"
        yield "next", "from_source(...) begins a stream"
        return
    yield "program", _operator_names(operators)
    if any(operator.kind is OperatorKind.SINK for operator in operators):
        yield "next", "execute_async('name') submits it, execute('name') also waits for its end"
    else:
        yield "next", "preview() of a stream shows first rows, sink_to(...) ends it; then execute_async('name')"


def watermarks(source: Transformation) -> str:
    if source.watermark_delay_ms is None:
        return "no watermarks"
    if source.punctuated_watermarks:
        return "watermarks by marked rows"
    silent = "" if source.idle_timeout_ms is None else f", idle after {format_ms(source.idle_timeout_ms)}"
    if source.quiet_period_ms is not None:
        silent += f", by the clock after {format_ms(source.quiet_period_ms)} without rows"
    alignment = source.watermark_alignment
    aligned = "" if alignment is None else f", {format_ms(alignment.max_drift_ms)} ahead of '{alignment.group}' at most"
    return f"watermark {format_ms(source.watermark_delay_ms)} behind the latest row{silent}{aligned}"


def _operator_names(operators: tuple[Transformation, ...]) -> str:
    left_out = len(operators) - SHOWN_OPERATORS
    names = [operator.name for operator in operators[-SHOWN_OPERATORS:]]
    return (f"{left_out} more, " if left_out > 0 else "") + ", ".join(names)
