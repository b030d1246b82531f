"""Computes digests of files on the executors that wrote them, in `mapInArrow` with one row per file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from flykka.actors.checkpoint_storage.file_digests import folders_within, sealed, sync_folders, verify_file
from flykka.actors.errors import CheckpointStorageError
from flykka.messages.state.handles import FileDigest

SEALED = "place long, size_bytes long, digest binary"
DAMAGED = "place long, reason string"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFiles:
    """Seals the files whose indices are its input, and syncs their folders up to `within` (None: no sync)."""

    paths: tuple[str, ...]
    within: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Seal the files. Yield their indices, sizes and digests."""
        places = _places(batches)
        files = [sealed(self.paths[place], "", sync=self.within is not None) for place in places]
        if self.within is not None and places:
            sync_folders(folders_within((self.paths[place] for place in places), self.within))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(places, pa.int64()),
                pa.array([file.size_bytes for file in files], pa.int64()),
                pa.array([file.digest for file in files], pa.binary()),
            ],
            names=["place", "size_bytes", "digest"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFiles:
    """Compares the files whose indices are its input with their digests."""

    files: tuple[tuple[str, FileDigest], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare the files. Yield the indices of missing or damaged files, with the reasons."""
        damaged: list[tuple[int, str]] = []
        for place in _places(batches):
            try:
                verify_file(*self.files[place])
            except CheckpointStorageError as reason:
                damaged.append((place, str(reason)))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([place for place, _ in damaged], pa.int64()),
                pa.array([reason for _, reason in damaged], pa.string()),
            ],
            names=["place", "reason"],
        )


def _places(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [place for batch in batches for place in batch.column(0).to_pylist()]
