"""Converts a trace to Chrome's trace event format, for the Perfetto UI (ui.perfetto.dev) and chrome://tracing.

Each actor is a thread, each turn a slice, and an arrow leads from the turn that sent a message to the turn that
received it. Traces do not record how long a turn takes: a slice ends when the actor's next slice begins, and after a
millisecond at the latest. Turns in the same millisecond are a microsecond apart, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from flykka.runtime.trace.records import Killed, Turn
from flykka.runtime.trace.text import effect_text, failure_of, failure_text, message_text
from flykka.traces.diagram import Arrow, Collapsed, Line

_LONGEST_US = 1_000
_PROCESS = 1
_CAUSES = 100_000
"""The number of remembered turns. Messages sent by earlier turns have no arrow."""


def perfetto(system: str, notes: Iterable[str], lines: Iterable[Line], begin_ms: int) -> Iterator[str]:
    """Yield the pieces of one JSON object, which is never completely in memory."""
    about = json.dumps({"system": system, "notes": list(notes)})
    yield f'{{"displayTimeUnit": "ms", "otherData": {about}, "traceEvents": [\n'
    yield json.dumps(_named("process_name", 0, f"actor system {system}"))
    for event in _Timeline(begin_ms).events(lines):
        yield ",\n" + json.dumps(event)
    yield "\n]}\n"


class _Timeline:
    def __init__(self, begin_ms: int) -> None:
        self._begin_ms = begin_ms
        self._threads: dict[str, int] = {}
        self._now_us = -1
        self._open: dict[int, dict[str, Any]] = {}
        # For each drawn turn, the thread and time at which its arrows begin.
        self._turns: dict[int, tuple[int, int]] = {}

    def events(self, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
        for line in lines:
            if isinstance(line, Arrow):
                yield from self._arrow(line)
            else:
                yield from self._collapsed(line)
        yield from self._open.values()

    def _arrow(self, arrow: Arrow) -> Iterator[dict[str, Any]]:
        record, thread = arrow.record, self._threads.get(arrow.recipient)
        if thread is None:
            thread = self._threads[arrow.recipient] = len(self._threads) + 1
            yield _named("thread_name", thread, arrow.recipient)
            yield {**_named("thread_sort_index", thread, ""), "args": {"sort_index": thread}}
        at = self._at(record.now_ms)
        common = {"pid": _PROCESS, "tid": thread, "ts": at}
        if not isinstance(record, Turn):
            yield {**common, "ph": "i", "s": "t", "name": arrow.name, "cat": arrow.kind, "args": _arguments(arrow)}
            if isinstance(record, Killed):
                yield from self._ended(thread, at)
            return
        yield from self._ended(thread, at)
        slice_of_turn = {**common, "ph": "X", "dur": _LONGEST_US, "name": arrow.name, "cat": arrow.kind}
        self._open[thread] = {**slice_of_turn, "args": _arguments(arrow)}
        if record.cause in self._turns:
            yield from self._flow(record.sequence, self._turns[record.cause], (thread, at))
        self._turns[record.sequence] = (thread, at)
        if len(self._turns) > _CAUSES:
            del self._turns[next(iter(self._turns))]

    def _collapsed(self, line: Collapsed) -> Iterator[dict[str, Any]]:
        at = self._at(line.now_ms)
        yield {"ph": "i", "s": "p", "pid": _PROCESS, "tid": 0, "ts": at, "name": line.text, "cat": "collapsed"}

    def _flow(self, number: int, start: tuple[int, int], end: tuple[int, int]) -> Iterator[dict[str, Any]]:
        common = {"pid": _PROCESS, "id": number, "name": "causes", "cat": "cause"}
        yield {**common, "ph": "s", "tid": start[0], "ts": start[1]}
        # The arrow ends at the slice that encloses this time, not at the next slice.
        yield {**common, "ph": "f", "bp": "e", "tid": end[0], "ts": end[1]}

    def _ended(self, thread: int, at: int) -> Iterator[dict[str, Any]]:
        earlier = self._open.pop(thread, None)
        if earlier is not None:
            yield {**earlier, "dur": min(_LONGEST_US, at - earlier["ts"])}

    def _at(self, now_ms: int) -> int:
        self._now_us = max(self._now_us + 1, (now_ms - self._begin_ms) * 1_000)
        return self._now_us


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": thread, "name": what, "args": {"name": name}}


def _arguments(arrow: Arrow) -> dict[str, Any]:
    record = arrow.record
    arguments: dict[str, Any] = {"turn": record.sequence}
    message = getattr(record, "message", None)
    if message is not None:
        arguments["message"] = message_text(message)
    if arrow.sender is not None:
        arguments["from"] = arrow.sender
    if arrow.cause is not None:
        arguments["cause"] = arrow.cause
    if isinstance(record, Turn) and record.effects:
        arguments["effects"] = [effect_text(effect) for effect in record.effects]
    if (failure := failure_of(record)) is not None:
        arguments["failure"] = failure_text(failure)
    return arguments
