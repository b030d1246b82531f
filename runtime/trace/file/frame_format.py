"""The layout of a trace file: frames, each with its length and its checksum.

    frame   = length of payload (u32, little endian), CRC32 of payload (u32), payload
    payload = the header, a msgpack map, in the first frame
              kind of frame (u8), content                       in all others
    BLOCK     the chunks of some records (`chunks`), one after the other, compressed with zlib
    NAMES     additions to the header: a msgpack map of schemas, modules and redacted tags, before the first block that
              needs them
    SNAPSHOTS actors at the start of a ring (`snapshots`): a msgpack array, compressed with zlib
    END       a msgpack map, after which nothing follows; `capped` is set if the recording reached its size cap

A block can be read without the others, and a reader may skip blocks. Turns are recorded when they end, so the file has
the records in that order. Sequence numbers give the order in which turns started.
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
"""The maximum length of a frame in bytes. A greater length indicates damage."""

MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""The maximum size of a decompressed frame in bytes: a chunk ends when it has 1 MiB, not counting its last message."""

MAX_INFLATION = 256
"""The maximum ratio of decompressed to compressed size. zlib's fastest level reaches 229."""

BLOCK = 1
NAMES = 2
END = 3
SNAPSHOTS = 4

BLOCK_BYTES = 64 * 1024
"""The uncompressed size in bytes at which a block is written. If records arrive slowly, a block is written earlier."""

_COMPRESSION = 1
"""zlib's fastest level, because blocks are so repetitive that higher levels hardly make them smaller."""


MAX_CHUNK_ITEMS = 1_000_000
"""The maximum count of numbers, refs and effects together in a chunk of a large block. A recorder ends a chunk far
earlier.
"""


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
    """Return the frame of some chunks. Compressing lets other threads run."""
    return framed(bytes([BLOCK]) + zlib.compress(b"".join(chunks), _COMPRESSION))


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    payloads: list[bytes] = []
    for chunk in chunks:
        payloads.append(chunk)
        if sum(map(len, payloads)) >= BLOCK_BYTES:
            yield block(payloads)
            payloads = []
    if payloads:
        yield block(payloads)


def inflated(compressed: bytes) -> bytes:
    most = min(MAX_INFLATED_BYTES, MAX_INFLATION * len(compressed) + BLOCK_BYTES)
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(compressed, most + 1)
    except zlib.error as wrong:
        raise ValueError(f"it cannot be decompressed ({wrong})") from None
    if len(data) > most:
        raise ValueError(
            f"it has {len(compressed):,} bytes, which would be more than {most:,} decompressed: no recorder writes that"
        )
    if not inflate.eof or inflate.unused_data:
        raise ValueError("the compressed data is incomplete, or followed by other bytes")
    return data


def names(content: Mapping[str, object]) -> bytes:
    return framed(bytes([NAMES]) + msgpack.packb(content))


def merge_names(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, names in more.items():
        merged = known.setdefault(key, type(names)())
        known[key] = merged | names if isinstance(names, dict) else merged + names


def snapshots(rows: Sequence[object]) -> bytes:
    return framed(bytes([SNAPSHOTS]) + zlib.compress(msgpack.packb(rows), _COMPRESSION))


def end(content: Mapping[str, object]) -> bytes:
    return framed(bytes([END]) + msgpack.packb(content))


def write_whole(path: Path, frames: Iterable[bytes], mode: int = 0o666) -> None:
    """Write a file under a temporary name and rename it, so that `path` is a complete trace or unchanged.

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
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload
