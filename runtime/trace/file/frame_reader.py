"""The frames of a file, up to the first that is not whole: what is behind it cannot be trusted.

A file that was cut off, as by a process that was killed, ends within a frame whose beginning is sound. A file that is
damaged has a frame that never was like that. Which of the two it is shows in the content where the length of a frame
reaches beyond the end of the file, for the length may be what is damaged.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgpack

from flykka.runtime.trace.file.frame_format import BLOCK, FRAME, MAX_FRAME_BYTES, SNAPSHOTS

_COMPRESSED = frozenset({BLOCK, SNAPSHOTS})
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Tells where a trace ends before its file does, or before its recording did, and why.

    `is_cut_off`: the file just ends there, and nothing in it is wrong.
    """

    offset: int
    reason: str
    is_cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Frame that is whole."""

    offset: int
    payload: bytes


def read_frames(file: BinaryIO) -> Iterator[Frame | Damage]:
    offset = 0
    while head := file.read(FRAME.size):
        if len(head) < FRAME.size:
            yield Damage(offset=offset, reason="cut off within the head of a frame", is_cut_off=True)
            return
        length, checksum = FRAME.unpack(head)
        payload = file.read(length) if length <= MAX_FRAME_BYTES else b""
        if len(payload) < length and length <= MAX_FRAME_BYTES and _is_beginning(payload):
            reason = f"cut off: a frame of {length} bytes, of which {len(payload)} are there"
            yield Damage(offset=offset, reason=reason, is_cut_off=True)
            return
        wrong = _wrong(length, checksum, payload)
        if wrong is not None:
            yield Damage(offset=offset, reason=wrong)
            return
        yield Frame(offset, payload)
        offset += FRAME.size + length


def _wrong(length: int, checksum: int, payload: bytes) -> str | None:
    if len(payload) < length:
        return f"the length of a frame, {length} bytes, does not fit what is in it"
    if zlib.crc32(payload) != checksum:
        return "the checksum of a frame does not fit"
    return None if payload else "a frame without content"


def _is_beginning(content: bytes) -> bool:
    """Tell whether this may be the beginning of a frame's content: it is sound, and not at its end before it stops."""
    if content[:1] and content[0] in _COMPRESSED:
        return _is_beginning_of_stream(content[1:])
    # The other kinds are one object of msgpack each, and so is the whole header.
    unpacker = msgpack.Unpacker(max_buffer_size=MAX_FRAME_BYTES)
    unpacker.feed(content[1:] if content[:1] and content[0] <= SNAPSHOTS else content)
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
    """The whole frames of these kinds from here on; the others are skipped, unread."""
    size = os.fstat(file.fileno()).st_size
    while len(head := file.read(FRAME.size + 1)) > FRAME.size:
        length, checksum = FRAME.unpack(head[:-1])
        begin = file.tell() - 1
        if not 0 < length <= size - begin:
            return
        if head[-1] in kinds:
            payload = head[-1:] + file.read(length - 1)
            if zlib.crc32(payload) != checksum:
                return
            yield Frame(begin - FRAME.size, payload)
        file.seek(begin + length)
