"""The format of a checkpoint storage file: magic, format version, length and CRC-32 of the body, then the body."""

from __future__ import annotations

import struct
import zlib

from flykka.actors.errors import CheckpointFormatError, CheckpointVersionError

FORMAT_VERSION = 1

_MAGIC = b"FLYKKA\r\n"
_HEADER = struct.Struct(">8sHQI")


def packed(body: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, FORMAT_VERSION, len(body), zlib.crc32(body)) + body


def is_packed(data: bytes) -> bool:
    return data.startswith(_MAGIC)


def unpacked(path: str, data: bytes) -> bytes:
    """Return the body of the file at `path`.

    Raises:
        CheckpointFormatError: the file was not written by flykka, or is incomplete or altered.
        CheckpointVersionError: a newer version of flykka wrote the file.
    """
    if not is_packed(data):
        raise CheckpointFormatError(f"{path}: not a file of flykka")
    if len(data) < _HEADER.size:
        raise CheckpointFormatError(f"{path}: cut off within its header")
    _, version, length, crc = _HEADER.unpack_from(data)
    if not version:
        raise CheckpointFormatError(f"{path}: altered since it was written (format version 0)")
    if version > FORMAT_VERSION:
        raise CheckpointVersionError(
            f"{path}: a newer flykka wrote it: it has format version {version}, and this flykka reads versions up to"
            f" {FORMAT_VERSION}"
        )
    body = data[_HEADER.size :]
    if len(body) != length:
        raise CheckpointFormatError(f"{path}: {length} bytes were written, but it has {len(body)}")
    if zlib.crc32(body) != crc:
        raise CheckpointFormatError(f"{path}: altered since it was written (CRC)")
    return body
