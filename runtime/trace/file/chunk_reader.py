"""Reads chunks as records. Messages stay packed until they are accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, repeat
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.codec import decode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.effects import CODES, EFFECTS, OPERANDS, PLAIN_TYPES, SEND, Effect, Operand, Send, Undecoded
from flykka.runtime.trace.file.record_chunks import KINDS
from flykka.runtime.trace.record_tuples import DEAD_LETTER, KILLED, SPAWNED
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn, recorded_ref

if TYPE_CHECKING:
    from flykka.messages.wire.message import Value
    from flykka.messages.wire.ref import Ref

_set = object.__setattr__
"""Sets fields of frozen records while they are created."""


MALFORMED = (LookupError, TypeError, ValueError, OverflowError)
"""Errors of reading a chunk with inconsistent parts."""


_MAX_NUMBER = 1 << 62

_NUMBER: frozenset[type] = frozenset({int})
_NUMBERS: frozenset[type] = frozenset({int, type(None)})
_FORMS: frozenset[type] = frozenset({bytes, str})
_LISTS: frozenset[type] = frozenset({list, type(None)})
_TEXT: frozenset[type] = frozenset({str})
_BYTES_OR_NONE: frozenset[type] = frozenset({bytes, type(None)})

_KEPT = 4096
_KEPT_BYTES = 1024
"""The maximum number of cached values, and the maximum size in bytes of each: heartbeats and the like are often
repeated.
"""


class Decoding:
    """Caches recently decoded values. They are immutable, so that records may share them."""

    def __init__(self) -> None:
        self._cache: dict[bytes | str, Value | Undecoded] = {}

    def value(self, packed: bytes | str) -> Value | Undecoded:
        value = self._cache.get(packed)
        if value is None:
            value = _value(packed)
            if len(packed) <= _KEPT_BYTES:
                if len(self._cache) >= _KEPT:
                    self._cache.clear()
                self._cache[packed] = value
        return value

    def failure(self, packed: bytes | str) -> SerializedThrowable:
        failure = self.value(packed)
        if isinstance(failure, SerializedThrowable):
            return failure
        reason = failure.reason if isinstance(failure, Undecoded) else f"not the record of a failure: {failure}"
        return SerializedThrowable(type_name="Undecoded", message=reason)


def _number(item: Any, least: int = 0) -> int:
    """Check a number and its minimum, because a negative number used as an index would count from the end."""
    if type(item) is not int or not least <= item <= _MAX_NUMBER:
        raise TypeError(f"{item!r} is not a number from {least}")
    return item


def _plain(item: Any, types: frozenset[type]) -> Any:
    if type(item) not in types:
        raise TypeError(f"a {type(item).__name__} is not allowed here")
    return item


def _value(packed: bytes | str) -> Value | Undecoded:
    if isinstance(packed, str):
        return Undecoded(data=b"", reason=packed)
    try:
        return decode(packed)
    except CodecError as error:
        # The class is not imported here, or has another version. The turn can still be displayed.
        return Undecoded(data=packed, reason=str(error))


class Chunk:
    """Unpacks a chunk with msgpack only. `place` is the chunk's position in the file, for errors.

    Content that no recorder writes raises one of `MALFORMED`. The effects of a turn are only checked when they are
    accessed.
    """

    def __init__(self, unpacked: list[Any], decoding: Decoding, place: str) -> None:
        refs, self.values, self._others, columns = unpacked
        self.refs = [recorded_ref(path, incarnation) for path, incarnation in refs]
        if not set(map(type, self.values)) <= _FORMS:
            raise TypeError("one of its messages is neither bytes nor text")
        self._columns = self._checked(columns) if columns else ()
        self._decoding = decoding
        self._place = place

    def _checked(self, columns: list[list[Any]]) -> tuple[list[Any], ...]:
        """Check the columns, and return them with absolute numbers instead of differences."""
        sequences, times, recipients, senders, causes, kinds, messages, effects, failures, digests = columns
        numbers, now = list(accumulate(sequences)), list(accumulate(times))
        last_ref, last_value = len(self.refs) - 1, len(self.values) - 1
        for column, allowed, least, most in (
            (numbers, _NUMBER, 1, _MAX_NUMBER),
            (now, _NUMBER, -_MAX_NUMBER, _MAX_NUMBER),
            (recipients, _NUMBER, 0, last_ref),
            (senders, _NUMBERS, 0, last_ref),
            (causes, _NUMBERS, -_MAX_NUMBER, _MAX_NUMBER),
            (kinds, _NUMBER, 0, len(KINDS) - 1),
            (messages, _NUMBER, 0, last_value),
            (failures, _NUMBERS, 0, last_value),
            (digests, _NUMBERS, 0, _MAX_NUMBER),
        ):
            types = set(map(type, column))
            if not types <= allowed:
                raise TypeError("one of its turns has a part that must be a number but is not")
            present = column if len(types) == 1 else [each for each in column if each is not None]
            if int in types and not (least <= min(present) and max(present) <= most):
                raise ValueError("a number in one of its turns is out of range")
        if not set(map(type, effects)) <= _LISTS:
            raise TypeError("the effects of one of its turns are not a list")
        return numbers, now, recipients, senders, causes, kinds, messages, effects, failures, digests

    def __iter__(self) -> Iterator[Record]:
        turns = self._turns()
        place = 0
        for at, *other in self._others:
            yield from islice(turns, at - place)
            yield self._other(other)
            place = at + 1
        yield from turns

    def sequences(self) -> Iterator[int]:
        numbers = iter(self._columns[0] if self._columns else ())
        place = 0
        for at, _, sequence, *_ in self._others:
            yield from islice(numbers, at - place)
            yield _number(sequence, 1)
            place = at + 1
        yield from numbers

    def refusal(self, wrong: Exception) -> TraceError:
        return TraceError(f"{self._place} cannot be read: {wrong}")

    def message(self, place: int) -> Value | Undecoded:
        return self._decoding.value(self.values[_number(place)])

    def failure(self, place: int | None) -> SerializedThrowable | None:
        return None if place is None else self._decoding.failure(self.values[_number(place)])

    def effect(self, packed: list[Any]) -> Effect:
        code, *operands = packed
        if code == 0 and len(operands) == 2:
            return Send(target=self._ref(operands[0]), message=self.message(operands[1]))
        if _number(code) >= len(EFFECTS):
            raise TraceError(f"{self._place} has effects of kind {code}: a newer version wrote it, or it is damaged")
        pairs = zip(OPERANDS[code], operands, strict=False)
        types = PLAIN_TYPES[code]
        effect: Effect = EFFECTS[code](
            **{name: self._operand(name, operand_type, item, types) for (name, operand_type), item in pairs}
        )
        return effect

    def _operand(self, name: str, operand: Operand, item: Any, types: Mapping[str, frozenset[type]]) -> object:
        match operand:
            case Operand.PLAIN:
                if name != "key":  # The key of a timer may be any value that the actor uses.
                    _plain(item, types[name])
                return tuple(item) if isinstance(item, list) else item
            case _ if item is None:
                return _plain(None, types[name])
            case Operand.REF:
                return self._ref(item)
            case Operand.REFS:
                return tuple(map(self._ref, _plain(item, _LISTS)))
            case Operand.VALUE:
                return self.failure(item) if name == "failure" else self.message(item)

    def _turns(self) -> Iterator[Turn]:
        if not self._columns:
            return
        sequences, times, recipients, senders, causes, kinds, messages, effects, failures, digests = self._columns
        refs = self.refs
        rows = zip(
            sequences,
            times,
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
        _number(sequence, 1)
        _number(now_ms, -_MAX_NUMBER)
        if kind == KILLED:
            (place,) = fields
            return Killed(sequence=sequence, now_ms=now_ms, ref=self._ref(place))
        if kind == DEAD_LETTER:
            message, sender, recipient, reason = fields
            return DeadLetterRecord(
                sequence=sequence,
                now_ms=now_ms,
                message=self.message(message),
                sender=None if sender is None else self._ref(sender),
                recipient=self._ref(recipient),
                reason=_plain(reason, _TEXT),
            )
        if kind == SPAWNED:
            ref, parent, actor, props = fields
            return Spawned(
                sequence=sequence,
                now_ms=now_ms,
                ref=self._ref(ref),
                parent=self._ref(parent),
                actor=_plain(actor, _TEXT),
                props=_plain(props, _BYTES_OR_NONE),
            )
        raise TraceError(f"{self._place} has records of kind {kind!r}: a newer version wrote it, or it is damaged")

    def _ref(self, place: Any) -> Ref:
        return self.refs[_number(place)]


class Content:
    """The part of a turn that is decoded on first access."""

    __slots__ = ("_chunk", "_effects", "_failure", "_message")

    def __init__(self, content: tuple[Chunk, int, list[list[Any]] | None, int | None]) -> None:
        self._chunk, self._message, self._effects, self._failure = content

    @property
    def message_bytes(self) -> int:
        try:
            return len(self._chunk.values[self._message])
        except MALFORMED:
            return 0

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def has_effects(
        self, performed: Sequence[tuple[Any, ...]], is_form_of: Callable[[bytes | str, object], bool]
    ) -> bool:
        """Return True if these are the effects, as tuples of a turn. The comparison creates no records.

        `is_form_of` returns True if a message has this wire form.
        """
        effects = self._effects or ()
        if len(effects) != len(performed):
            return False
        chunk = self._chunk
        refs, values = chunk.refs, chunk.values
        for effect, actual in zip(effects, performed, strict=True):
            if effect[0] == SEND and len(effect) == len(actual) == 3 and actual[0] == "send":
                # The fast path for the most frequent effect.
                if refs[effect[1]] != actual[1] or not is_form_of(values[effect[2]], actual[2]):
                    return False
                continue
            code, *packed = effect
            kind, *operands = actual
            if CODES.get(kind) != code or len(packed) != len(operands):
                return False
            for (_, operand_type), place, operand in zip(OPERANDS[code], packed, operands, strict=False):
                if place is None or operand is None:
                    alike = place is operand
                elif operand_type is Operand.REF:
                    alike = refs[place] == operand
                elif operand_type is Operand.VALUE:
                    alike = is_form_of(values[place], operand)
                else:
                    alike = operand_type is Operand.PLAIN and place == operand
                if not alike:
                    return False
        return True

    def __call__(self, name: str) -> object:
        chunk = self._chunk
        try:
            if name == "message":
                return chunk.message(self._message)
            if name == "failure":
                return chunk.failure(self._failure)
            return tuple(map(chunk.effect, self._effects or ()))
        except MALFORMED as wrong:
            raise chunk.refusal(wrong) from wrong
