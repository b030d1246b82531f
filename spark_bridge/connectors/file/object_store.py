"""Files accessed with fsspec and the user's options, in object stores for which Spark has no jar.

A FileSource uses it instead of a `FileSystem`, which uses Hadoop. A discovery is one listing of all files below the
path, which includes the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import TextIOWrapper
from typing import IO, Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from flykka.actors.checkpoint_storage.file_digests import is_hidden
from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import MissingExtraError, SourceError

StorageOptions = tuple[tuple[str, Any], ...]

_EXTRAS = {"s3": "s3", "s3a": "s3"}


@dataclass(frozen=True)
class ObjectStore:
    """The files below one path, such as `s3://bucket/orders`. Every call blocks, and may raise `OSError`."""

    path: str
    options: StorageOptions
    _sizes: dict[str, int] = field(default_factory=dict, compare=False)

    def check_usable(self) -> None:
        _ = self._fs

    @cached_property
    def _fs(self) -> AbstractFileSystem:
        try:
            # Listings must not be cached, because other processes write there.
            return url_to_fs(self.path, **{"use_listings_cache": False, **dict(self.options)})[0]
        except ImportError as missing:
            extra = _EXTRAS.get(self.path.partition(":")[0])
            how = "" if extra is None else f": pip install 'flykka[{extra}]'"
            raise MissingExtraError(f"{self.path} cannot be read: {missing}{how}") from missing
        except (ValueError, TypeError) as refused:
            raise SourceError(f"{self.path} cannot be read: {refused}") from refused

    def open(self, path: str) -> IO[bytes]:
        opened: IO[bytes] = self._fs.open(self._inner(path), "rb")
        return opened

    def open_text(self, path: str) -> IO[str]:
        r"""Open a text file, decompressed according to its name: `orders.json.gz`.

        Lines end with `\n`, `\r` or both, as in Hadoop. A byte order mark is skipped.
        """
        opened = pa.PythonFile(self.open(path), "r")
        with suppress(TypeError):  # Arrow raises it for a name without a compression suffix.
            opened = pa.CompressedInputStream(opened, pa.Codec.detect(path).name)
        return TextIOWrapper(opened, encoding="utf-8-sig")

    def local(self, path: str) -> None:
        return

    def absolute(self, path: str) -> str:
        """Local paths are relative to the working directory of this process, not of a worker."""
        return plain_path(self.qualified(path))

    def qualified(self, path: str) -> str:
        return str(self._fs.unstrip_protocol(self._inner(path)))

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._inner(path)))

    def is_folder(self, path: str) -> bool:
        return bool(self._fs.isdir(self._inner(path)))

    def size_bytes(self, path: str) -> int:
        known = self._sizes.get(path)
        return int(self._fs.size(self._inner(path))) if known is None else known

    def paths_below(self, folder: str, begin: Callable[[str], object] = lambda folder: None) -> Iterator[str]:
        root = self._inner(folder)
        found = self._fs.find(root, detail=True)
        self._sizes.clear()
        for inner in sorted(found):
            below = inner.removeprefix(root).strip("/").split("/")
            if not any(map(is_hidden, below)) and found[inner].get("type") != "directory":
                path = self._fs.unstrip_protocol(inner)
                self._sizes[path] = int(found[inner]["size"])
                yield path

    def _inner(self, path: str) -> str:
        return str(self._fs._strip_protocol(path))
