"""The folder of a state's segments: on the disk of each executor, and where they are several, one that all reach.

What one executor has written, another finds in the shared folder, and keeps it beside its own from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from fsspec.core import url_to_fs
from pyspark import SparkFiles

from flykka.actors.checkpoint_storage.private_files import make_inheriting_folder, restrict
from flykka.spark_bridge.worker.segment_file import UNFINISHED, Segment, read_segment, unfinished, write_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFolder:
    """The folder `name` below that of the executor, which goes with it, and the shared one (None: one machine).

    Raises `OSError` where the shared folder cannot be used.
    """

    name: str
    shared: str | None = None

    def path(self, segment: str) -> Path:
        return Path(SparkFiles.getRootDirectory()) / self.name / segment

    def read(self, segments: Sequence[str]) -> list[Segment]:
        for segment in segments:
            if self.shared is not None and not self.path(segment).exists():
                self._fetch(segment)
        return [read_segment(self.path(segment)) for segment in segments]

    def has(self, segment: str) -> bool:
        """True if a segment is there for the executors: on this machine, or where all reach it."""
        if self.shared is not None:
            filesystem, folder = url_to_fs(self.shared)
            return bool(filesystem.exists(f"{folder}/{segment}"))
        try:
            read_segment(self.path(segment))
        except (OSError, pa.ArrowInvalid):
            return False
        return True

    def write(self, segment: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
        """Write rows that are sorted already, and return their number. Of none there is no segment.

        The other executors have it first: under its name a batch that does not read it would have it forgotten here.
        """

        def share(whole: Path) -> None:
            if self.shared is not None:
                filesystem, folder = url_to_fs(self.shared)
                make_inheriting_folder(filesystem, folder)
                filesystem.put_file(str(whole), f"{folder}/{segment}")
                restrict(filesystem, f"{folder}/{segment}")

        return write_segment(self.path(segment), schema, tables, share)

    def forget_all_but(self, segments: Sequence[str]) -> None:
        """Delete what this executor has of segments that nobody reads any more."""
        live = {self.path(segment) for segment in segments}
        for path in self.path("").iterdir() if self.shared is not None else ():
            if path not in live and path.suffix != UNFINISHED:
                path.unlink(missing_ok=True)

    def delete(self, segment: str) -> None:
        """Delete a segment, as far as it can be reached from here."""
        self.path(segment).unlink(missing_ok=True)
        if self.shared is not None:
            filesystem, folder = url_to_fs(self.shared)
            # A job that has ended may have taken the folder with it.
            with suppress(FileNotFoundError):
                filesystem.rm_file(f"{folder}/{segment}")

    def _fetch(self, segment: str) -> None:
        filesystem, folder = url_to_fs(self.shared)
        path = self.path(segment)
        with unfinished(path) as file:
            filesystem.get_file(f"{folder}/{segment}", str(file))
            file.replace(path)
