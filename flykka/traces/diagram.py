"""A trace as a sequence diagram: lifelines and the messages between them, independent of the output format.

A line of a diagram is one turn: an arrow from the sender of its message to the recipient. Unimportant turns are
collapsed: a sequence of them becomes one line with counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flykka.errors import TraceSelectionError
from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.file.order import exactly_in_order, recipient_of
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import DeadLetterRecord, Record, Turn
from flykka.runtime.trace.text import message_name
from flykka.traces.checkpoint_story import concerns_checkpoint
from flykka.traces.origin import begin_of, origin, shortcomings
from flykka.traces.selection import KINDS, has_type, is_at, patterns_of
from flykka.views.text.turns import ids_cut_short


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Selects the part of a trace to draw.

    `actors` are path patterns: only messages to or from matching actors are drawn. Without patterns, all messages are
    drawn. `collapse` are names of `KINDS` or patterns of message types. With `checkpoint` only records that concern it
    are drawn.
    """

    actors: tuple[str, ...] = ()
    collapse: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """The line of a record. Without a `sender` the message came from outside, from a timer or from an unknown actor."""

    record: Record
    sender: str | None
    recipient: str
    kind: str
    name: str

    @property
    def turn(self) -> int:
        return self.record.sequence

    @property
    def cause(self) -> int | None:
        return self.record.cause if isinstance(self.record, Turn) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    first: int
    last: int
    now_ms: int
    counts: tuple[tuple[str, int], ...]
    actors: tuple[str, ...]

    @property
    def text(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in self.counts)


Line = Arrow | Collapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """The content of a drawing: lines in turn order, actors in the order of their first appearance.

    `begin_ms` is the beginning of the trace, even if the drawing begins later.
    """

    title: str
    notes: tuple[str, ...]
    begin_ms: int
    lifelines: tuple[str, ...]
    lines: tuple[Line, ...]


def lines_of(records: Iterable[Record], view: View) -> Iterator[Line]:
    patterns = patterns_of(view.collapse)
    run: _CollapsedRecords | None = None
    for record in records:
        if view.last is not None and record.sequence > view.last:
            break
        if view.first is not None and record.sequence < view.first:
            continue
        if not _is_seen(record, view):
            continue
        if any(has_type(record, pattern) for pattern in patterns):
            run = run or _CollapsedRecords(record)
            run.add(record)
            continue
        if run is not None:
            yield run.collapsed()
            run = None
        yield arrow_of(record)
    if run is not None:
        yield run.collapsed()


def arrow_of(record: Record) -> Arrow:
    sender, recipient = _sender(record), recipient_of(record).path
    path = None if sender is None else sender.path
    match record:
        case Turn(kind=kind, message=message):
            return Arrow(record=record, sender=path, recipient=recipient, kind=kind, name=message_name(message))
        case DeadLetterRecord(message=message):
            name = message_name(message)
            return Arrow(record=record, sender=path, recipient=recipient, kind="dead letter", name=name)
        case _:
            name = type(record).__name__
            return Arrow(record=record, sender=path, recipient=recipient, kind=name.lower(), name=name.upper())


def _is_seen(record: Record, view: View) -> bool:
    if view.checkpoint is not None and not concerns_checkpoint(record, view.checkpoint):
        return False
    if not view.actors:
        return True
    sender = _sender(record)
    refs = [recipient_of(record)] if sender is None else [recipient_of(record), sender]
    return any(is_at(ref, pattern) for ref in refs for pattern in view.actors)


def _sender(record: Record) -> Ref | None:
    return record.sender if isinstance(record, Turn | DeadLetterRecord) else None


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the shortest unique suffix of each path. Long ids are shortened, unless that makes them ambiguous."""
    all_paths = list(paths)
    cut = {path: ids_cut_short(path) for path in all_paths}
    if len(set(cut.values())) < len(all_paths):
        cut = {path: path for path in all_paths}
    parts = {path: each.strip("/").split("/") for path, each in cut.items()}
    tails = Counter("/".join(each[-length:]) for each in parts.values() for length in range(1, len(each) + 1))
    return {path: _tail(each, tails) or path for path, each in parts.items()}


def _tail(parts: Sequence[str], tails: Counter[str]) -> str:
    # The name "bridge" alone would be meaningless, because a bridge belongs to a task.
    candidates = ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))
    return next((each for each in candidates if tails[each] == 1), "/".join(parts))


class _CollapsedRecords:
    def __init__(self, first: Record) -> None:
        self._first = first
        self._last = first.sequence
        self._names: Counter[str] = Counter()
        self._actors: dict[str, None] = {}

    def add(self, record: Record) -> None:
        self._last = record.sequence
        self._names[arrow_of(record).name] += 1
        self._actors[recipient_of(record).path] = None

    def collapsed(self) -> Collapsed:
        return Collapsed(
            first=self._first.sequence,
            last=self._last,
            now_ms=self._first.now_ms,
            counts=tuple(self._names.most_common()),
            actors=tuple(self._actors),
        )


MERMAID_LINES = 300
HTML_LINES = 50_000
"""The maximum number of lines of a page. Such a page has about 20 MB and can still be displayed."""


def diagram_of(trace: TraceReader, view: View, *, most: int) -> Diagram:
    """Return a diagram of at most `most` lines.

    Raises:
        TraceSelectionError: the selection is empty, or has more lines.
    """
    lines: list[Line] = []
    hidden = 0
    lifelines: dict[str, None] = {}
    for line in stream_lines(trace, view):
        if len(lines) >= most:
            hidden += 1
            continue
        lines.append(line)
        if isinstance(line, Arrow):
            lifelines.update(dict.fromkeys(path for path in (line.sender, line.recipient) if path is not None))
        else:
            lifelines.update(dict.fromkeys(line.actors))
    if hidden:
        names = ", ".join(f"'{name}'" for name in KINDS)
        raise TraceSelectionError(
            f"{trace.path}: {len(lines) + hidden:,} turns are too many for this diagram, which takes "
            f"{most:,}: draw fewer with --from and --to, --actors, --checkpoint or --collapse ({names} or a TYPE)"
        )
    if not lines:
        raise TraceSelectionError(f"{trace.path}: no turn matches: there is nothing to draw")
    return Diagram(
        title=origin(trace),
        notes=tuple(shortcomings(trace)),
        begin_ms=begin_of(trace),
        lifelines=tuple(lifelines),
        lines=tuple(lines),
    )


def stream_lines(trace: TraceReader, view: View) -> Iterator[Line]:
    return lines_of(exactly_in_order(trace), view)
