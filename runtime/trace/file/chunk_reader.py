"""Chunks as records. Messages stay packed until somebody asks a turn for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, repeat
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.codec import decode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.effects import CODES, EFFECTS, OPERANDS, SEND, Effect, Operand, Send, Undecoded
from flykka.runtime.trace.file.chunks import KINDS
from flykka.runtime.trace.noted import DEAD_LETTER, KILLED, SPAWNED
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn

if TYPE_CHECKING:
    from flykka.messages.wire.message import Value

_set = object.__setattr__
"""The way past the frozenness of records, for who makes them."""


MALFORMED = (LookupError, TypeError, ValueError, OverflowError)
"""Errors of reading where the parts of a chunk do not fit each other."""


_KEPT = 4096
_KEPT_BYTES = 1024
"""So many values are kept, of messages that are no larger: heartbeats and the like are the same again and again."""


class Decoding:
    """Keeps what it has decoded lately. The values are immutable, so that records may share them."""

    def __init__(self) -> None:
        self._kept: dict[bytes | str, Value | Undecoded] = {}

    def value(self, packed: bytes | str) -> Value | Undecoded:
        """The message, or why there is none."""
        found = self._kept.get(packed)
        if found is None:
            found = _value(packed)
            if len(packed) <= _KEPT_BYTES:
                if len(self._kept) >= _KEPT:
                    self._kept.clear()
                self._kept[packed] = found
        return found

    def failure(self, packed: bytes | str) -> SerializedThrowable:
        """A failure, in whatever state its record is."""
        found = self.value(packed)
        if isinstance(found, SerializedThrowable):
            return found
        reason = found.reason if isinstance(found, Undecoded) else f"not the record of a failure: {found}"
        return SerializedThrowable(type_name="Undecoded", message=reason)


def _value(packed: bytes | str) -> Value | Undecoded:
    if isinstance(packed, str):
        return Undecoded(data=b"", reason=packed)
    try:
        return decode(packed)
    except CodecError as refusal:
        # A class that is not imported here, or of another version: the turn is worth showing all the same.
        return Undecoded(data=packed, reason=str(refusal))


class Chunk:
    """Unpack a chunk as far as msgpack does it. `place` says for errors where it is."""

    def __init__(self, unpacked: list[Any], decoding: Decoding, place: str) -> None:
        refs, self.values, self._others, self._columns = unpacked
        self.refs = [Ref(path, incarnation) for path, incarnation in refs]
        self._decoding = decoding
        self._place = place

    def __iter__(self) -> Iterator[Record]:
        turns = self._turns()
        place = 0
        for at, *other in self._others:
            yield from islice(turns, at - place)
            yield self._other(other)
            place = at + 1
        yield from turns

    def sequences(self) -> Iterator[int]:
        """The numbers of the records."""
        numbers = accumulate(self._columns[0]) if self._columns else iter(())
        place = 0
        for at, _, sequence, *_ in self._others:
            yield from islice(numbers, at - place)
            yield sequence
            place = at + 1
        yield from numbers

    def refusal(self, wrong: Exception) -> TraceError:
        """The error for content that no recorder wrote: its checksum fits, and its parts do not."""
        return TraceError(f"{self._place} cannot be read: {wrong}")

    def message(self, place: int) -> Value | Undecoded:
        """The message at a place of the table."""
        return self._decoding.value(self.values[place])

    def failure(self, place: int | None) -> SerializedThrowable | None:
        """The failure at a place of the table."""
        return None if place is None else self._decoding.failure(self.values[place])

    def effect(self, packed: list[Any]) -> Effect:
        """The record of a packed effect."""
        code, *operands = packed
        if code == 0 and len(operands) == 2:
            return Send(target=self.refs[operands[0]], message=self.message(operands[1]))
        if code >= len(EFFECTS):
            raise TraceError(f"effects of kind {code} are of a newer version")
        pairs = zip(OPERANDS[code], operands, strict=False)
        effect: Effect = EFFECTS[code](**{name: self._operand(name, what, item) for (name, what), item in pairs})
        return effect

    def _operand(self, name: str, operand: Operand, item: Any) -> object:
        match operand:
            case _ if item is None:
                return None
            case Operand.REF:
                return self.refs[item]
            case Operand.REFS:
                return tuple(self.refs[place] for place in item)
            case Operand.VALUE:
                return self.failure(item) if name == "failure" else self.message(item)
            case Operand.PLAIN:
                return tuple(item) if isinstance(item, list) else item

    def _turns(self) -> Iterator[Turn]:
        if not self._columns:
            return
        sequences, times, recipients, senders, causes, kinds, messages, effects, failures, digests = self._columns
        refs = self.refs
        rows = zip(
            accumulate(sequences),
            accumulate(times),
            recipients,
            senders,
            causes,
            kinds,
            zip(repeat(self), messages, effects, failures),
            digests,
            strict=True,
        )
        for sequence, now_ms, recipient, sender, cause, kind, content, digest in rows:
            turn = Turn.__new__(Turn)
            _set(turn, "sequence", sequence)
            _set(turn, "now_ms", now_ms)
            _set(turn, "recipient", refs[recipient])
            _set(turn, "sender", None if sender is None else refs[sender])
            _set(turn, "cause", None if cause is None else sequence - cause)
            _set(turn, "kind", KINDS[kind])
            _set(turn, "digest", digest)
            _set(turn, "_read", Content(content))
            yield turn

    def _other(self, packed: list[Any]) -> Record:
        kind, sequence, now_ms, *fields = packed
        refs = self.refs
        if kind == KILLED:
            return Killed(sequence=sequence, now_ms=now_ms, ref=refs[fields[0]])
        if kind == DEAD_LETTER:
            message, sender, recipient, reason = fields
            return DeadLetterRecord(
                sequence=sequence,
                now_ms=now_ms,
                message=self.message(message),
                sender=None if sender is None else refs[sender],
                recipient=refs[recipient],
                reason=reason,
            )
        if kind == SPAWNED:
            ref, parent, actor, props = fields
            return Spawned(
                sequence=sequence, now_ms=now_ms, ref=refs[ref], parent=refs[parent], actor=actor, props=props
            )
        raise TraceError(f"records of kind {kind} are of a newer version")


class Content:
    """The part of a turn that is decoded when it is first asked for."""

    __slots__ = ("_chunk", "_effects", "_failure", "_message")

    def __init__(self, content: tuple[Chunk, int, list[list[Any]] | None, int | None]) -> None:
        self._chunk, self._message, self._effects, self._failure = content

    @property
    def message_bytes(self) -> int:
        """The size of the packed message; 0 where there is none."""
        try:
            return len(self._chunk.values[self._message])
        except MALFORMED:
            return 0

    @property
    def has_failed(self) -> bool:
        """Tell whether the turn has raised."""
        return self._failure is not None

    def has_effects(self, noted: Sequence[tuple[Any, ...]], is_form_of: Callable[[bytes | str, object], bool]) -> bool:
        """Tell whether the effects are these, as a turn has noted them: told without making records of them.

        `is_form_of` says whether a message has this form.
        """
        effects = self._effects or ()
        if len(effects) != len(noted):
            return False
        chunk = self._chunk
        refs, values = chunk.refs, chunk.values
        for effect, done in zip(effects, noted, strict=True):
            if effect[0] == SEND and len(effect) == len(done) == 3 and done[0] == "send":
                # What most effects are, and most quickly looked at so.
                if refs[effect[1]] != done[1] or not is_form_of(values[effect[2]], done[2]):
                    return False
                continue
            code, *packed = effect
            kind, *operands = done
            if CODES.get(kind) != code or len(packed) != len(operands):
                return False
            for (_, what), place, operand in zip(OPERANDS[code], packed, operands, strict=False):
                if place is None or operand is None:
                    alike = place is operand
                elif what is Operand.REF:
                    alike = refs[place] == operand
                elif what is Operand.VALUE:
                    alike = is_form_of(values[place], operand)
                else:
                    alike = what is Operand.PLAIN and place == operand
                if not alike:
                    return False
        return True

    def __call__(self, name: str) -> object:
        """The message, the failure or the effects."""
        chunk = self._chunk
        try:
            if name == "message":
                return chunk.message(self._message)
            if name == "failure":
                return chunk.failure(self._failure)
            return tuple(map(chunk.effect, self._effects or ()))
        except MALFORMED as wrong:
            raise chunk.refusal(wrong) from wrong
