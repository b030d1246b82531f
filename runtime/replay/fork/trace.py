"""The trace of a fork: the records up to the fork, followed by the turns of the fork.

It is a complete trace, which can be replayed, checked and compared like any other.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.runtime.errors import ForkError
from flykka.runtime.trace.file import frame_format as layout
from flykka.runtime.trace.file.reader import Damage, read_frames
from flykka.runtime.trace.file.record_chunks import distances
from flykka.runtime.trace.record.block_writer import BlockWriter
from flykka.runtime.trace.record.recorder import TraceRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from flykka.runtime.trace.file.reader import TraceReader


class ForkTraceRecorder(TraceRecorder):
    """Records a fork of `trace` that starts at turn `number`.

    Raises:
        ForkError: `path` is the file of the trace itself.
    """

    def __init__(self, path: str | os.PathLike[str], trace: TraceReader, number: int) -> None:
        super().__init__(path)
        if self.path.exists() and os.path.samefile(self.path, trace.path):
            raise ForkError(f"{self.path} is the recorded run itself: a fork of it needs another file")
        self._blocks = _Continuation(self.path, trace.path, number)


class _Continuation(BlockWriter):
    """Appends to the beginning of another file."""

    def __init__(self, path: Path, begun: Path, number: int) -> None:
        super().__init__(path, None)
        self._original = begun
        self._number = number

    def _begin(self, _system: str, _seed: int) -> None:
        for frame in beginning(self._original, self._number):
            self._write(frame)


def beginning(path: Path, number: int) -> Iterator[bytes]:
    """Yield the frames of the trace at `path` without the records from `number` on, and without an end."""
    with path.open("rb") as file:
        frames = read_frames(file)
        for place, frame in enumerate(frames):
            if isinstance(frame, Damage) or (place > 0 and frame.payload[0] == layout.END):
                return
            if place > 0 and frame.payload[0] == layout.BLOCK:
                unpacker = msgpack.Unpacker(max_buffer_size=layout.MAX_FRAME_BYTES)
                unpacker.feed(zlib.decompress(frame.payload[1:]))
                yield layout.block([_packed(_before(chunk, number)) for chunk in unpacker])
            else:
                yield layout.framed(frame.payload)


def _before(chunk: Sequence[Any], number: int) -> list[Any]:
    """Return a chunk without the records from `number` on. Its tables are unchanged."""
    refs, values, others, columns = chunk
    rows = zip(accumulate(columns[0]), accumulate(columns[1]), *columns[2:], strict=True) if columns else iter(())
    by_place = {other[0]: other[1:] for other in others}
    count = len(others) + (len(columns[0]) if columns else 0)
    kept_rows: list[tuple[Any, ...]] = []
    kept_others: list[list[Any]] = []
    for place in range(count):
        other = by_place.get(place)
        if other is None:
            row = next(rows)
            if row[0] < number:
                kept_rows.append(row)
        elif other[1] < number:
            kept_others.append([len(kept_rows) + len(kept_others), *other])
    retained: list[Any] = list(zip(*kept_rows, strict=True))
    if retained:
        retained[0], retained[1] = distances(retained[0]), distances(retained[1])
    return [refs, values, kept_others, retained]


def _packed(chunk: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(chunk)
    return packed
