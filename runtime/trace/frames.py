"""The frames of a file, up to the first that is not whole: what is behind it cannot be trusted."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from flykka.runtime.trace.format import FRAME, MAX_FRAME_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where a trace ends before its file does, or before its recording did, and why."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame."""

    offset: int
    payload: bytes


def read_frames(file: BinaryIO) -> Iterator[Frame | Damage]:
    """The frames from here on, and a damage at the end where there is one."""
    offset = 0
    while head := file.read(FRAME.size):
        reason = None
        if len(head) < FRAME.size:
            reason = "cut off within the head of a frame"
        else:
            length, checksum = FRAME.unpack(head)
            payload = file.read(length) if length <= MAX_FRAME_BYTES else b""
            if len(payload) < length:
                reason = f"cut off: a frame of {length} bytes, of which {len(payload)} are there"
            elif zlib.crc32(payload) != checksum:
                reason = "the checksum of a frame does not fit"
            elif not payload:
                reason = "a frame without content"
        if reason is not None:
            yield Damage(offset=offset, reason=reason)
            return
        yield Frame(offset, payload)
        offset += FRAME.size + length


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
