"""The flight recorder: retains the last turns in memory, and writes them as a trace after a failure.

Nothing is encoded while it records. It holds references to messages, which are immutable, so that a turn costs only an
append and the weighing of its message. It is on by default, so its memory is bounded twice: by the number of turns, and
by the bytes and characters in their messages, because a checkpoint's state can be large.

Records are stored flat in the lists of a few pages, each after its length, and are dropped page by page. If each record
were a tuple that contains tuples of effects, the garbage collector would traverse them again and again: hundreds of
thousands of long-lived objects take it more time than the turns that created them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flykka.runtime.recording import Recorder
from flykka.runtime.trace.file import frame_format as layout
from flykka.runtime.trace.file.message_encoding import EncodedMessage, weight
from flykka.runtime.trace.file.record_chunks import ChunkPacker
from flykka.runtime.trace.record_tuples import TURN, RecordTuple, dead_letter_tuple, killed_tuple, spawned_tuple

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect

DEFAULT_TURNS = 50_000
DEFAULT_PAYLOAD_BYTES = 64 * 1024 * 1024

_PAGES = 1_000
"""The number of pages of the ring. It drops complete pages, so it may exceed its limits by one page."""
_TURN_FIELDS = 9
"""The number of fields of a turn before its effects: the fields listed at `TURN`, with the failure before the effects.
"""

_BLOCK_RECORDS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecordState:
    """The counts of retained records (at most `limit`) and dropped ones, and the retained records' time range in ms."""

    records: int
    limit: int
    not_kept: int
    begins_ms: int | None = None
    ends_ms: int | None = None


class _Page:
    """A page of the ring: for each record, its length followed by its fields."""

    __slots__ = ("count", "payload", "places")

    def __init__(self) -> None:
        self.places: list[Any] = []
        self.count = 0
        self.payload = 0


class FlightRecorder(Recorder):
    """Retains one system's last `turns` records: turns, kills and dead letters.

    50,000 turns with small messages take about 30 MB of memory and 20 MB as a file, those of jobs up to three times as
    much. Older records are dropped when the messages together contain more than `payload_bytes` of text, bytes and
    tuples.
    """

    def __init__(self, turns: int = DEFAULT_TURNS, *, payload_bytes: int = DEFAULT_PAYLOAD_BYTES) -> None:
        assert turns > 0
        self._limit = turns
        self._payload_limit = payload_bytes
        # The lock is reentrant: an object freed under the lock may have a finalizer that sends a message to an ended
        # actor, which becomes a dead letter.
        self._lock = threading.RLock()
        self._dumping = threading.Lock()
        self._page_turns = -(-turns // _PAGES)
        self._page_payload = payload_bytes // _PAGES
        self._page = _Page()
        self._pages = deque([self._page])
        self._count = 0
        self._payload = 0
        self._recorded = 0
        self._system: tuple[str, int] | None = None
        self._closed = False

    def open(self, *, system: str, seed: int) -> None:
        """Start recording. Raises `RuntimeError` for a second system, because a trace contains one system."""
        if self._system is not None:
            raise RuntimeError(f"the flight recorder of system {self._system[0]!r} cannot record {system!r} as well")
        self._system = (system, seed)

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        message = envelope.message
        carried = weight(message) if failure is None else weight(message) + weight(failure)
        sender, cause, kind = envelope.sender, envelope.cause, envelope.kind
        places = [0, TURN, sequence, now_ms, recipient, sender, cause, kind, message, failure]
        for effect in effects:
            places.append(len(effect))
            places += effect
            if effect[0] == "pipe":
                # Sent messages are weighed when they are handled. Arguments of blocking work only occur here.
                carried += weight(effect[1])
        places[0] = len(places) - 1
        self._add(carried, places)

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        record = spawned_tuple(sequence, now_ms, ref, parent, props)
        recipe = record[-1]
        self._add(0 if recipe is None else len(recipe), _places(record))

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        self._add(0, _places(killed_tuple(sequence, now_ms, ref)))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        record = dead_letter_tuple(sequence, now_ms, message, sender, recipient, reason)
        self._add(weight(message), _places(record))

    def close(self) -> None:
        """Drop everything: the system has ended, so there are no more failures to explain."""
        with self._lock:
            self._closed = True
            self._page = _Page()
            self._pages.clear()

    def dump(self, path: str | os.PathLike[str], *, mode: int = 0o666) -> None:
        """Write the retained records as a trace. May be called repeatedly while the system runs.

        `path` then contains a complete trace or its previous content. The permissions of a new file are the `mode`
        without the bits of the umask.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: the recorder has no system, or its system has ended.
        """
        with self._dumping:
            head, records = self._copy()
            layout.write_whole(Path(path), _frames(head, records), mode)

    def held(self) -> FlightRecordState:
        """Return the number and the times of the records that a dump would write. Raises `RuntimeError` like `dump`."""
        with self._lock:
            self._check_open()
            count = self._count + self._page.count
            records = min(count, self._limit)
            times = chain.from_iterable(_times(page.places) for page in self._pages)
            # Skips the records that are about to be dropped, which fill less than two pages.
            begins_ms = next(islice(times, count - records, None), None)
            last = next((page for page in reversed(self._pages) if page.count), None)
            ends_ms = None if last is None else max(_times(last.places))
            not_kept = self._recorded + self._page.count - records
        return FlightRecordState(
            records=records, limit=self._limit, not_kept=not_kept, begins_ms=begins_ms, ends_ms=ends_ms
        )

    def _add(self, carried: int, places: list[Any]) -> None:
        with self._lock:
            if self._closed:
                return
            page = self._page
            # Updated in one step, so that finalizers run by the garbage collector at any other time find complete
            # records.
            page.places += places
            page.count += 1
            page.payload += carried
            if page.count >= self._page_turns or page.payload > self._page_payload:
                self._turn_page()

    def _turn_page(self) -> None:
        dropped = []
        self._recorded += self._page.count
        self._count += self._page.count
        self._payload += self._page.payload
        # The newest records are retained whatever their size, because they may explain the failure.
        while len(self._pages) > 1 and self._is_dispensable(self._pages[0]):
            oldest = self._pages.popleft()
            self._count -= oldest.count
            self._payload -= oldest.payload
            dropped.append(oldest)
        self._page = _Page()
        self._pages.append(self._page)
        # Cleared after all changes, because the dropped objects may have finalizers.
        dropped.clear()

    def _is_dispensable(self, oldest: _Page) -> bool:
        return self._count - oldest.count >= self._limit or self._payload > self._payload_limit

    def _copy(self) -> tuple[bytes, list[RecordTuple]]:
        with self._lock:
            system = self._check_open()
            pages = [tuple(page.places) for page in self._pages]
            recorded = self._recorded + self._page.count
        records = [record for page in pages for record in _records(page)][-self._limit :]
        not_kept = recorded - len(records)
        begins_at = min((record[1] for record in records), default=None)
        ring = {"limit": self._limit, "not_kept": not_kept, "begins_at": begins_at}
        return layout.header(*system, ring=ring), records

    def _check_open(self) -> tuple[str, int]:
        if self._system is None:
            raise RuntimeError("the flight recorder has no system yet: there is nothing to write")
        if self._closed:
            raise RuntimeError(f"system {self._system[0]!r} has ended, and its recording with it")
        return self._system


def _places(record: RecordTuple) -> list[Any]:
    return [len(record), *record]


def _begins(places: Sequence[Any]) -> Iterator[int]:
    begin = 0
    while begin < len(places):
        yield begin
        begin += 1 + places[begin]


def _times(places: Sequence[Any]) -> Iterator[int]:
    return (places[begin + 3] for begin in _begins(places))


def _records(places: tuple[Any, ...]) -> Iterator[RecordTuple]:
    for begin in _begins(places):
        record = places[begin + 1 : begin + 1 + places[begin]]
        yield _turn(record) if record[0] == TURN else record


def _turn(flat: tuple[Any, ...]) -> RecordTuple:
    operands = iter(flat[_TURN_FIELDS:])
    effects = [tuple(islice(operands, length)) for length in operands]
    return (*flat[: _TURN_FIELDS - 1], effects, flat[_TURN_FIELDS - 1], None)


def _frames(head: bytes, records: list[RecordTuple]) -> Iterator[bytes]:
    encoded = EncodedMessage()
    yield head
    for begin in range(0, len(records), _BLOCK_RECORDS):
        chunks = [chunk for _, chunk in ChunkPacker(encoded).pack(records[begin : begin + _BLOCK_RECORDS])]
        if names := encoded.take_names():
            yield layout.names(names)
        yield from layout.blocks(chunks)
    yield layout.end({})
