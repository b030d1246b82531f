"""Records as bytes: a chunk has the refs and the messages of its records once each, and the turns column by column.

    chunk = [refs, values, others, columns]
    refs    = [path, incarnation] each
    values  = messages in their own encoding, which a reader may leave packed; a text gives the reason for a message
              that could not be written
    others  = [place among the records, kind, sequence, now, ...]: records other than turns
    columns = sequences, times, recipients, senders, causes, kinds, messages, effects, failures, digests

Sequences and times are stored as differences from the previous record, causes as differences from their turn. Most of a
column is then the same number repeated, which is packed fast and compressed to nearly nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import sub
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import CODES, OPERANDS, SEND, Operand
from flykka.runtime.trace.file.frame_format import MAX_CHUNK_ITEMS
from flykka.runtime.trace.file.message_encoding import EncodedMessage
from flykka.runtime.trace.record_tuples import DEAD_LETTER, KILLED, TURN, RecordTuple

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref

KINDS = ("message", "timer", "signal")
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}

_CHUNK_BYTES = 1024 * 1024
"""The bytes of messages and Props after which a chunk is full, however few its records are."""

_CHUNK_ITEMS = MAX_CHUNK_ITEMS // 4
"""The count of numbers, refs and effects after which a chunk is full."""

_RECORD_ITEMS = 16
_EFFECT_ITEMS = 8

_KEPT_BYTES = 256 * 1024

Row = tuple[Any, ...]


class ChunkPacker:
    """Creates chunks. Not thread-safe: it retains its buffers, and recently packed values."""

    def __init__(self, encoded: EncodedMessage) -> None:
        self._encoded = encoded
        # A value without a msgpack form, such as the key of a timer, is written as its `repr`, so that no turn is
        # lost.
        self._pack = msgpack.Packer(default=repr).pack
        self._records: Sequence[RecordTuple] = ()
        self._values: list[bytes | str] = []
        self._value_ids: dict[int, int] = {}
        self._bytes = 0
        self._begin(())

    def pack(self, records: Sequence[RecordTuple]) -> Iterator[tuple[int, bytes]]:
        """Yield chunks of these records, each with its first record's sequence number."""
        begin = 0
        while begin < len(records):
            self._begin(records)
            first = records[begin][1]
            begin = self._take(records, begin)
            yield first, self._finish()

    def _begin(self, records: Sequence[RecordTuple]) -> None:
        # A message sent at the end of a chunk is handled at the beginning of the next one. So the chunk's records are
        # retained too, unless they hold much memory; until then no other message gets the same `id`.
        is_kept = self._bytes < _KEPT_BYTES
        self._last_values, self._last_value_ids = (self._values, self._value_ids) if is_kept else ([], {})
        self._last_records, self._records = (self._records if is_kept else ()), records
        self._refs: list[tuple[str, int]] = []
        self._ref_places: dict[tuple[str, int], int] = {}
        self._ref_ids: dict[int, int] = {}
        self._values = []
        self._value_places: dict[bytes | str, int] = {}
        self._value_ids = {}
        self._bytes = 0
        self._others: list[Row] = []
        self._rows: list[Row] = []

    def _take(self, records: Sequence[RecordTuple], begin: int) -> int:
        """Add records until the chunk is full or none remain. Returns the index of the next record."""
        rows, others = self._rows, self._others
        # Looked up here and not in the methods, because this runs for every turn and nearly all values are already
        # known.
        refs, values = self._ref_ids.get, self._value_ids.get
        place, items = begin, 0
        for place in range(begin, len(records)):
            if self._bytes >= _CHUNK_BYTES or items >= _CHUNK_ITEMS:
                return place
            record = records[place]
            items += _RECORD_ITEMS
            if record[0] != TURN:
                others.append((place - begin, *self._other(record)))
                continue
            _, sequence, now_ms, recipient, sender, cause, kind, message, effects, failure, digest = record
            ref = refs(id(recipient))
            teller = None if sender is None else refs(id(sender))
            value = values(id(message))
            if effects:
                items += _EFFECT_ITEMS * len(effects)
            rows.append(
                (
                    sequence,
                    now_ms,
                    self._ref(recipient) if ref is None else ref,
                    self._ref(sender) if teller is None and sender is not None else teller,
                    None if cause is None else sequence - cause,
                    _KIND_CODES[kind],
                    self._value(message) if value is None else value,
                    [self._effect(effect) for effect in effects] if effects else None,
                    None if failure is None else self._value(failure),
                    digest,
                )
            )
        return place + 1

    def _finish(self) -> bytes:
        columns: list[Any] = list(zip(*self._rows, strict=True))
        if columns:
            columns[0] = distances(columns[0])
            columns[1] = distances(columns[1])
        chunk: bytes = self._pack((self._refs, self._values, self._others, columns))
        return chunk

    def _other(self, record: RecordTuple) -> Row:
        kind, sequence, now_ms = record[:3]
        if kind == KILLED:
            return (kind, sequence, now_ms, self._ref(record[3]))
        if kind == DEAD_LETTER:
            message, sender, recipient, reason = record[3:]
            sender = None if sender is None else self._ref(sender)
            return (kind, sequence, now_ms, self._value(message), sender, self._ref(recipient), reason)
        ref, parent, actor, props = record[3:]
        self._bytes += len(props or b"")
        self._encoded.actor(actor)
        return (kind, sequence, now_ms, self._ref(ref), self._ref(parent), actor, props)

    def _effect(self, effect: Row) -> Row:
        kind = effect[0]
        if kind == "send" and len(effect) == 3:
            _, target, message = effect
            ref, value = self._ref_ids.get(id(target)), self._value_ids.get(id(message))
            return (
                SEND,
                self._ref(target) if ref is None else ref,
                self._value(message) if value is None else value,
            )
        if kind == "spawn" and len(effect) == 3:
            self._encoded.actor(effect[2])
        code = CODES[kind]
        return (
            code,
            *(
                self._operand(operand_type, item)
                for (_, operand_type), item in zip(OPERANDS[code], effect[1:], strict=False)
            ),
        )

    def _operand(self, operand: Operand, item: Any) -> object:
        if item is None or operand is Operand.PLAIN:
            return item
        if operand is Operand.REF:
            return self._ref(item)
        if operand is Operand.VALUE:
            return self._value(item)
        return [self._ref(ref) for ref in item]

    def _ref(self, ref: Ref) -> int:
        place = self._ref_ids.get(id(ref))
        if place is None:
            key = (ref.path, ref.incarnation)
            place = self._ref_places.setdefault(key, len(self._refs))
            if place == len(self._refs):
                self._refs.append(key)
            self._ref_ids[id(ref)] = place
        return place

    def _value(self, value: Value) -> int:
        place = self._value_ids.get(id(value))
        if place is None:
            earlier = self._last_value_ids.get(id(value))
            form = self._encoded.form(value) if earlier is None else self._last_values[earlier]
            place = self._value_places.setdefault(form, len(self._values))
            if place == len(self._values):
                self._values.append(form)
                self._bytes += len(form)
            self._value_ids[id(value)] = place
        return place


def distances(numbers: Sequence[int]) -> list[int]:
    return list(map(sub, numbers, (0, *numbers[:-1])))
