"""Reads trace files, with their headers, up to the first incomplete frame.

The content after such a frame cannot be trusted. A truncated file, for example of a killed process, ends within a frame
whose beginning is valid. A damaged file has an invalid frame. If a frame's length exceeds the rest of the file, its
content shows which of the two cases it is, because the length itself may be damaged.

A trace is read record by record, with few of them in memory, because there may be millions.
"""

from __future__ import annotations

import os
import pkgutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import msgpack

import flykka.messages
from flykka.messages.wire.unpacking import hooks, unpack
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.file import frame_format as layout
from flykka.runtime.trace.file.chunk_reader import MALFORMED, Chunk, Decoding
from flykka.runtime.trace.records import Capped, Killed, Record, Ring, TraceHeader, Turn
from flykka.runtime.trace.state.snapshots import Snapshot, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


_COMPRESSED = frozenset({layout.BLOCK, layout.SNAPSHOTS})
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The position where a trace ends before its file or its recording does, and the reason.

    If `is_cut_off`, the file is truncated, and its content is valid.
    """

    offset: int
    reason: str
    is_cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    offset: int
    payload: bytes


def read_frames(file: BinaryIO) -> Iterator[Frame | Damage]:
    offset = 0
    while head := file.read(layout.FRAME.size):
        if len(head) < layout.FRAME.size:
            yield Damage(offset=offset, reason="cut off within the head of a frame", is_cut_off=True)
            return
        length, checksum = layout.FRAME.unpack(head)
        payload = file.read(length) if length <= layout.MAX_FRAME_BYTES else b""
        if len(payload) < length and length <= layout.MAX_FRAME_BYTES and _is_beginning(payload):
            reason = f"cut off: a frame of {length} bytes, but only {len(payload)} are there"
            yield Damage(offset=offset, reason=reason, is_cut_off=True)
            return
        wrong = _frame_problem(length, checksum, payload)
        if wrong is not None:
            yield Damage(offset=offset, reason=wrong)
            return
        yield Frame(offset, payload)
        offset += layout.FRAME.size + length


def _frame_problem(length: int, checksum: int, payload: bytes) -> str | None:
    if len(payload) < length:
        return f"the length of a frame, {length} bytes, does not match its content"
    if zlib.crc32(payload) != checksum:
        return "the checksum of a frame does not match"
    return None if payload else "a frame without content"


def _is_beginning(content: bytes) -> bool:
    """Return True if this may be the beginning of a frame's content: valid, and incomplete."""
    if content[:1] and content[0] in _COMPRESSED:
        return _is_beginning_of_stream(content[1:])
    # Other kinds of frames, and the header, consist of one msgpack object.
    unpacker = msgpack.Unpacker(max_buffer_size=layout.MAX_FRAME_BYTES)
    unpacker.feed(content[1:] if content[:1] and content[0] <= layout.SNAPSHOTS else content)
    try:
        unpacker.skip()
    except msgpack.OutOfData:
        return True
    except (msgpack.UnpackException, ValueError):
        return False
    return False


def _is_beginning_of_stream(compressed: bytes) -> bool:
    inflate = zlib.decompressobj()
    try:
        while compressed and not inflate.eof:
            inflate.decompress(compressed, _PIECE_BYTES)
            compressed = inflate.unconsumed_tail
    except zlib.error:
        return False
    return not inflate.eof


def small_frames(file: BinaryIO, kinds: frozenset[int]) -> Iterator[Frame]:
    """Yield the complete frames of these kinds from here on. Other frames are skipped without reading them."""
    size = os.fstat(file.fileno()).st_size
    while len(head := file.read(layout.FRAME.size + 1)) > layout.FRAME.size:
        length, checksum = layout.FRAME.unpack(head[:-1])
        begin = file.tell() - 1
        if not 0 < length <= size - begin:
            return
        if head[-1] in kinds:
            payload = head[-1:] + file.read(length - 1)
            if zlib.crc32(payload) != checksum:
                return
            yield Frame(begin - layout.FRAME.size, payload)
        file.seek(begin + length)


_FIELDS: dict[str, type] = {"system": str, "seed": int, "package": str, "python": str, "hash_seed": str}

_NAMES: dict[str, type] = {"schemas": dict, "modules": dict, "redacted": list, "capped": dict}
"""The keys that later frames may add."""

_NAME: bytes = msgpack.packb("format") + msgpack.packb(layout.FORMAT_NAME)
"""The first item in a header, after the size of its map."""
T = TypeVar("T")
_SNAPSHOTS = frozenset({layout.SNAPSHOTS})
_ADDED_TO_HEADER = frozenset({layout.NAMES, layout.END})


def read_header(path: Path, first: Frame | Damage | None) -> dict[str, Any]:
    """Return the fields of the first frame. Raises `TraceError` unless it is the header of a trace readable here."""
    if not isinstance(first, Frame):
        if first is not None and not _begins_as_one(path):
            raise TraceError(f"{path} is not a trace: it does not begin like one")
        why = "the file is empty" if first is None else first.reason
        raise TraceError(
            f"{path} has no complete header ({why}): it is not a trace, or a crash interrupted its creation"
        )
    fields = _map(first.payload)
    if fields.get("format") != layout.FORMAT_NAME:
        raise TraceError(f"{path} is not a trace")
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise TraceError(f"{path} is a trace without a format version")
    if version < layout.FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {version} from before the first release, which names classes by modules that have"
            " moved: record the run again, or read it with the flykka that wrote it"
        )
    if version > layout.FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {version}, and this version reads {layout.FORMAT_VERSION}: "
            f"read it with flykka {fields.get('package')} or newer"
        )
    missing = [name for name, kind in _FIELDS.items() if type(fields.get(name)) is not kind]
    if missing:
        raise TraceError(f"{path} is a trace whose header lacks {', '.join(missing)}")
    return fields


def header_of(path: Path, fields: dict[str, Any], later: Iterable[Frame]) -> TraceHeader:
    try:
        return _header_of(fields, [_names_of(frame) for frame in later])
    except (TypeError, ValueError) as wrong:
        raise TraceError(f"{path} is a trace whose header cannot be read: {wrong}") from wrong


def _header_of(fields: dict[str, Any], later: list[dict[str, Any]]) -> TraceHeader:
    added: dict[str, Any] = {}
    for each in later:
        layout.merge_names(added, each)
    capped = _numbers("capped", added)
    ring = _numbers("ring", fields, optional=("begins_at",))
    return TraceHeader(
        format_version=fields["version"],
        system=fields["system"],
        seed=fields["seed"],
        package=fields["package"],
        python=fields["python"],
        hash_seed=fields["hash_seed"],
        ring=None if ring is None else Ring(**ring),
        schemas=_texts("schemas", added),
        modules=_texts("modules", added),
        revision=_of(str, "revision", fields),
        recorded_at_ms=_of(int, "recorded_at_ms", fields),
        redacted=_redacted(added),
        capped=None if capped is None else Capped(**capped),
    )


def _begins_as_one(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(layout.FRAME.size + 1)
        return _NAME.startswith(file.read(len(_NAME)))


def _of(kind: type[T], name: str, fields: dict[str, Any]) -> T | None:
    value = fields.get(name)
    if value is None or type(value) is kind:
        return value
    raise TypeError(f"{name} is a {type(value).__name__}")


def _texts(name: str, fields: dict[str, Any]) -> dict[str, str]:
    texts = _of(dict, name, fields) or {}
    if not all(type(each) is str for each in (*texts, *texts.values())):
        raise TypeError(f"{name} contains a value that is not a string")
    return texts


def _redacted(fields: dict[str, Any]) -> frozenset[str]:
    tags = _of(list, "redacted", fields) or []
    if not all(type(each) is str for each in tags):
        raise TypeError("redacted contains a value that is not a string")
    return frozenset(tags)


def _numbers(name: str, fields: dict[str, Any], optional: Container[str] = ()) -> dict[str, int] | None:
    numbers: dict[str, Any] | None = _of(dict, name, fields)
    for key, number in (numbers or {}).items():
        if not (number is None and key in optional) and not (type(number) is int and number >= 0):
            raise TypeError(f"{name}.{key} is a {type(number).__name__}, or negative")
    return numbers


def _map(payload: bytes) -> dict[str, Any]:
    try:
        content = unpack(payload)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _names_of(frame: Frame) -> dict[str, Any]:
    names = _map(frame.payload[1:])
    for key, kind in _NAMES.items():
        if type(names.get(key, kind())) is not kind:
            raise TypeError(f"{key} is a {type(names[key]).__name__}, at byte {frame.offset}")
    return names


class TraceReader:
    """A recorded run. Only the header is in memory; every iteration reads the file from its beginning."""

    def __init__(self, path: Path, header: TraceHeader) -> None:
        self.path = path
        self.header = header
        self.damage: Damage | None = None
        """The damage found while reading the records, other than a truncated file. None if there was none."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read the header, and its additions in later frames.

        Raises:
            TraceError: there is no complete header, or one that this version cannot read.
            OSError: the file cannot be read.
        """
        _declare_messages()
        location = Path(path)
        with location.open("rb") as file:
            first = next(read_frames(file), None)
            fields = read_header(location, first)
            return cls(location, header_of(location, fields, small_frames(file, _ADDED_TO_HEADER)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r} of actor system {self.header.system!r}>"

    def __iter__(self) -> Iterator[Turn]:
        return (record for record in self.records() if isinstance(record, Turn))

    def records(self) -> Iterator[Record]:
        """Yield spawns, turns, kills and dead letters in file order, reading one block at a time."""
        decoding = Decoding()
        for frame in self._whole_frames():
            if frame.payload[0] == layout.BLOCK:
                yield from self._block(frame, decoding, iter)

    def sequences(self) -> Iterator[int]:
        """Yield the numbers of all records in file order, without creating records."""
        decoding = Decoding()
        for frame in self._whole_frames():
            if frame.payload[0] == layout.BLOCK:
                yield from self._block(frame, decoding, Chunk.sequences)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the actors that lived at the start of a ring, parents first. A complete recording has none."""
        with self.path.open("rb") as file:
            next(read_frames(file))
            for frame in small_frames(file, _SNAPSHOTS):
                try:
                    rows = read_snapshots(layout.inflated(frame.payload[1:]))
                except MALFORMED as wrong:
                    raise TraceError(f"{self._place(frame)} cannot be read: {wrong}") from wrong
                yield from rows

    @property
    def turns(self) -> list[Turn]:
        """All turns, in the order in which they started."""
        return sorted(self, key=lambda turn: turn.sequence)

    @property
    def killed(self) -> list[Killed]:
        """All kills, in order."""
        kills = (record for record in self.records() if isinstance(record, Killed))
        return sorted(kills, key=lambda kill: kill.sequence)

    @property
    def truncated(self) -> Damage | None:
        """The position and the reason where the trace ends before its file does, or None if it is complete.

        A recording that reached its size cap is complete; `header.capped` reports that.
        """
        return next((frame for frame in self._frames() if isinstance(frame, Damage)), None)

    def _frames(self) -> Iterator[Frame | Damage]:
        with self.path.open("rb") as file:
            frames = read_frames(file)
            next(frames)
            has_end = False
            for frame in frames:
                yield frame
                if isinstance(frame, Damage):
                    return
                if frame.payload[0] == layout.END:
                    has_end = True
                    break
            end = file.tell()
            if file.read(1):
                yield Damage(offset=end, reason="the file continues after the end of the recording")
            elif not has_end:
                reason = "the recording was not closed: its process was killed, or is still running"
                yield Damage(offset=end, reason=reason, is_cut_off=True)

    def _whole_frames(self) -> Iterator[Frame]:
        for frame in self._frames():
            if isinstance(frame, Damage):
                self.damage = None if frame.is_cut_off else frame
                return
            yield frame

    def _block(self, block: Frame, decoding: Decoding, extract: Callable[[Chunk], Iterator[T]]) -> Iterator[T]:
        place = self._place(block)
        try:
            data = layout.inflated(block.payload[1:])
            most = layout.MAX_CHUNK_ITEMS
            limits = {"max_array_len": most, "max_map_len": 0, "max_ext_len": 0, **hooks(len(data), most)}
            unpacker = msgpack.Unpacker(max_buffer_size=len(data), **limits)
            unpacker.feed(data)
            while unpacker.tell() < len(data):
                yield from extract(Chunk(unpacker.unpack(), decoding, place))
        except (msgpack.UnpackException, *MALFORMED) as wrong:
            raise wrong if isinstance(wrong, TraceError) else TraceError(f"{place} cannot be read: {wrong}") from wrong

    def _place(self, frame: Frame) -> str:
        return f"{self.path}: the block at byte {frame.offset}"


@cache
def _declare_messages() -> None:
    """Declare all messages of flykka's actors, so that readers of a trace need not import them."""
    modules = [module.name for module in pkgutil.walk_packages(flykka.messages.__path__, "flykka.messages.")]
    for name in (*modules, "flykka.runtime.events", "flykka.runtime.signals"):
        import_module(name)
