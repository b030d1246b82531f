"""The layout of a trace file: frames, each with its length and its checksum.

    frame   = length of payload (u32, little endian), CRC32 of payload (u32), payload
    payload = the header, a msgpack map, in the first frame
              kind of frame (u8), content                       in all others

    BLOCK     the chunks of some records (`chunks`), one behind the other, compressed with zlib
    NAMES     what the header had to leave open: a msgpack map of schemas, modules and redacted tags, ahead of the first
              block that needs them
    SNAPSHOTS actors as they were where a ring begins (`snapshots`): a msgpack array, compressed with zlib
    END       a msgpack map: nothing comes behind it. `capped` is there where a size cap has ended the recording.

A block can be read without the others, and a reader that skips blocks need not read them. Records are in the order in
which they were noted, turns at their end; sequence numbers tell the order in which they began.
"""

from __future__ import annotations

import os
import platform
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgpack

from flykka.runtime.temporary_folders import open_exclusively
from flykka.runtime.trace.file.versions import revision

FORMAT_NAME = "flykka.trace"
FORMAT_VERSION = 4

FRAME = struct.Struct("<II")
MAX_FRAME_BYTES = 1 << 30
"""A length above this is damage, not a frame."""

MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""The size of the largest frame when it is not compressed: a chunk ends when it has 1 MiB, but for its last message."""

MAX_INFLATION = 256
"""So many times its size a frame may be when it is not compressed. zlib's fastest level reaches 229."""

BLOCK = 1
NAMES = 2
END = 3
SNAPSHOTS = 4

BLOCK_BYTES = 64 * 1024
"""So much, before it is compressed, is a block worth; what comes slower is written sooner."""

_COMPRESSION = 1
"""zlib's fastest: what is in a block repeats itself so much that more effort hardly makes it smaller."""


MAX_CHUNK_ITEMS = 1_000_000
"""So many numbers, refs and effects a chunk of a large block may have together; a recorder ends it far earlier."""


def header(system: str, seed: int, **more: object) -> bytes:
    try:
        package = version("flykka")
    except PackageNotFoundError:
        package = "not installed"
    fields: dict[str, Any] = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "system": system,
        "seed": seed,
        "package": package,
        "python": platform.python_version(),
        "hash_seed": os.environ.get("PYTHONHASHSEED", "random"),
        "revision": revision(),
        "recorded_at_ms": time.time_ns() // 1_000_000,
        **more,
    }
    return framed(msgpack.packb(fields))


def block(chunks: Iterable[bytes]) -> bytes:
    """The frame of some chunks. Compressing lets other threads run."""
    return framed(bytes([BLOCK]) + zlib.compress(b"".join(chunks), _COMPRESSION))


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The frames of some chunks, each as soon as it is worth one."""
    taken: list[bytes] = []
    for chunk in chunks:
        taken.append(chunk)
        if sum(map(len, taken)) >= BLOCK_BYTES:
            yield block(taken)
            taken = []
    if taken:
        yield block(taken)


def inflated(compressed: bytes) -> bytes:
    """The content of a frame that is compressed. Raises `ValueError` where it is no such, or too large."""
    most = min(MAX_INFLATED_BYTES, MAX_INFLATION * len(compressed) + BLOCK_BYTES)
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(compressed, most + 1)
    except zlib.error as wrong:
        raise ValueError(f"it cannot be decompressed ({wrong})") from None
    if len(data) > most:
        raise ValueError(
            f"it is {len(compressed):,} bytes, and decompressed more than {most:,}: no recorder writes that"
        )
    if not inflate.eof or inflate.unused_data:
        raise ValueError("what is compressed does not end with it")
    return data


def names(content: Mapping[str, object]) -> bytes:
    """The frame of what the header had to leave open."""
    return framed(bytes([NAMES]) + msgpack.packb(content))


def merge_names(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what another frame of names says to what those before have said."""
    for key, found in more.items():
        kept = known.setdefault(key, type(found)())
        known[key] = kept | found if isinstance(found, dict) else kept + found


def snapshots(rows: Sequence[object]) -> bytes:
    return framed(bytes([SNAPSHOTS]) + zlib.compress(msgpack.packb(rows), _COMPRESSION))


def end(content: Mapping[str, object]) -> bytes:
    return framed(bytes([END]) + msgpack.packb(content))


def write_whole(path: Path, frames: Iterable[bytes], mode: int = 0o666) -> None:
    """Write a file under another name and rename it, so that at `path` is a whole trace or what was there before.

    Its permissions are the `mode` without the bits of the umask.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.inprogress")
    try:
        with open(open_exclusively(unfinished, mode), "wb") as file:
            file.writelines(frames)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def framed(payload: bytes) -> bytes:
    """A payload with its length and its checksum."""
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload
