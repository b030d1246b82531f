"""Digests of files that a checkpoint, a savepoint or a sink's state refers to."""

from __future__ import annotations

from flykka.messages.wire.message import Value, value


@value("state.file_digest")
class FileDigest(Value):
    """A file as it was written: its name below the folder of its handle, its size and the xxh3_128 of its bytes."""

    name: str
    size_bytes: int
    digest: bytes
