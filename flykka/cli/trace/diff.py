"""`flykka trace diff`: finds the first difference between two runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from flykka.cli.arguments import TRACE_FILE, describe
from flykka.cli.exit_codes import DIFFERENT, OK
from flykka.cli.trace.command import EPILOG, SEVERAL
from flykka.cli.trace.trace_file import run_on_trace
from flykka.errors import TraceSelectionError
from flykka.messages.wire.message import Value
from flykka.runtime.trace.diff.first_difference import VARYING, Comparison, Difference, RecordedCause, first_difference
from flykka.runtime.trace.diff.value_comparator import FieldDifference
from flykka.runtime.trace.effects import Effect, Undecoded
from flykka.runtime.trace.file.order import exactly_in_order, recipient_of
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.text import effect_text, message_text
from flykka.traces.origin import shortcomings
from flykka.traces.record_json import plain, record_json
from flykka.traces.selection import has_type, is_at, patterns_of

_DESCRIPTION = """\
Compare two runs actor by actor: the messages to it, their senders, and its effects.
Times and the interleaving of turns of different actors are ignored; so are different
ids, as long as they correspond throughout.

examples:
  flykka trace diff a.trace b.trace --without heartbeats --without metrics
  flykka trace diff a.trace b.trace --ignore path --ignore files
"""

_FIELDS = 6
_CAUSES = 6
_VALUE_LENGTH = 120


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="A", help=TRACE_FILE)
    parser.add_argument("other", metavar="B", help="the trace to compare it with")
    parser.add_argument("--actor", metavar="PATH", help="compare only this actor; * and ? stand for any text")
    without = f"ignore heartbeats, metrics, credits, or messages of this class or tag; {SEVERAL}"
    parser.add_argument("--without", metavar="TYPE", action="append", default=[], help=without)
    ignore = f"ignore fields of this name; * and ? stand for any text; {SEVERAL}"
    parser.add_argument("--ignore", metavar="FIELD", action="append", default=[], help=ignore)
    parser.add_argument("--strict", action="store_true", help="compare times, ids and incarnations too")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run=diff)


def diff(arguments: argparse.Namespace) -> int:
    def with_left(left: TraceReader) -> int:
        return run_on_trace("flykka trace diff", arguments.other, lambda right: _compare(left, right, arguments))

    return run_on_trace("flykka trace diff", arguments.file, with_left)


def _compare(left: TraceReader, right: TraceReader, arguments: argparse.Namespace) -> int:
    comparison = first_difference(
        exactly_in_order(left),
        exactly_in_order(right),
        is_compared=_record_filter(arguments.actor, arguments.without),
        ignored=(*(() if arguments.strict else VARYING), *arguments.ignore),
        renames=not arguments.strict,
    )
    if comparison.same == 0 and comparison.difference is None and (arguments.actor is not None or arguments.without):
        raise TraceSelectionError(f"neither {arguments.file} nor {arguments.other} contains anything that matches")
    if arguments.json:
        print(json.dumps(_json(left, right, comparison), indent=2))
    else:
        sys.stdout.write("\n".join(_lines(left, right, comparison, arguments)) + "\n")
    return OK if comparison.difference is None else DIFFERENT


def _record_filter(actor: str | None, without: list[str]) -> Callable[[Record], bool]:
    patterns = patterns_of(without)

    def is_included(record: Record) -> bool:
        if actor is not None and not is_at(recipient_of(record), actor):
            return False
        return not any(has_type(record, pattern) for pattern in patterns)

    return is_included


def _lines(
    left: TraceReader, right: TraceReader, comparison: Comparison, arguments: argparse.Namespace
) -> Iterator[str]:
    one, other = arguments.file, arguments.other
    for name, trace in ((one, left), (other, right)):
        yield from (f"# {name}: {note}" for note in shortcomings(trace))
    different = comparison.difference
    if different is None:
        aside = "" if arguments.strict else ", except for times and the names of ids"
        yield f"{one} and {other} are the same: {comparison.same:,} records of {comparison.actors:,} actors{aside}"
        return
    record = different.left or different.right
    assert record is not None
    path = recipient_of(record).path
    yield f"{one} and {other} differ first in record {different.number:,} of {path}"
    yield f"  A  {_record_line(different.left)}"
    yield f"  B  {_record_line(different.right)}"
    if different.moved_to is not None:
        yield f"  the order differs: B has this record of A as turn {different.moved_to}"
    yield from (f"  {_field(each)}" for each in different.fields[:_FIELDS])
    if len(different.fields) > _FIELDS:
        yield "  and more"
    yield from _caused("A", different.left_causes)
    yield from _caused("B", different.right_causes)
    yield f"{comparison.same:,} records of {comparison.actors:,} actors are the same before it"
    yield from (f"look: {command}" for command in _commands(one, other, different))


def _record_line(record: Record | None) -> str:
    if record is None:
        return "the actor has no more records"
    if not isinstance(record, Turn):
        return f"{record.sequence}  {type(record).__name__}"
    sender = "" if record.sender is None else f"  from {record.sender.path}"
    return f"{record.sequence}  {message_text(record.message)}{sender}"


def _field(field: FieldDifference) -> str:
    return f"{field.path}: A {_does_or_has(field.left)}, B {_does_or_has(field.right)}"


def _does_or_has(item: Any) -> str:
    if isinstance(item, Effect):
        return effect_text(item)
    if isinstance(item, Value | Undecoded):
        return f"has {message_text(item)}"
    text = " ".join(repr(item).split())
    return f"has {text}" if len(text) <= _VALUE_LENGTH else f"has {text[: _VALUE_LENGTH - 3]}..."


def _caused(side: str, causes: tuple[RecordedCause, ...]) -> Iterator[str]:
    if causes:
        chain = " <- ".join(f"{cause.turn} {cause.message}" for cause in causes[:_CAUSES])
        yield f"  {side} caused by {chain}{' <- ...' if len(causes) > _CAUSES else ''}"


def _commands(one: str, other: str, different: Difference) -> Iterator[str]:
    for file, record in ((one, different.left), (other, different.right)):
        if record is not None:
            actor = recipient_of(record).path
            yield f"flykka trace show {file} --actor '{actor}' --from {record.sequence} --limit 5"


def _json(left: TraceReader, right: TraceReader, comparison: Comparison) -> dict[str, Any]:
    different = comparison.difference
    document: dict[str, Any] = {
        "left": str(left.path),
        "right": str(right.path),
        "notes": [*shortcomings(left), *shortcomings(right)],
        "same": comparison.same,
        "actors": comparison.actors,
        "difference": None,
    }
    if different is not None:
        document["difference"] = {
            "number": different.number,
            "left": None if different.left is None else record_json(different.left),
            "right": None if different.right is None else record_json(different.right),
            "fields": [
                {"path": each.path, "left": _plain(each.left), "right": _plain(each.right)} for each in different.fields
            ],
            "left_causes": [cause.turn for cause in different.left_causes],
            "right_causes": [cause.turn for cause in different.right_causes],
            "moved_to": different.moved_to,
        }
    return document


def _plain(item: Any) -> Any:
    value = plain(item)
    return value if isinstance(value, str | int | float | bool | dict | list | None) else repr(value)
