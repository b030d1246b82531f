"""File operations by Hadoop's FileSystem, with the credentials and settings of the Spark session.

Paths may be all that Spark reads: local paths, `file:`, `hdfs:`, `s3a:`. Local files are accessed without the JVM,
unless the session has configured another file system for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyarrow import fs

from flykka.actors.checkpoint_storage.file_digests import is_hidden
from flykka.spark_bridge.rows import local_files
from flykka.spark_bridge.session.jvm_classes import jvm_class
from flykka.spark_bridge.session.local_file_system import LOCAL_FILE_SYSTEMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_BETWEEN = "\0"

_LOCAL = "file:"

_PLAIN_URI = re.compile(r"[a-z0-9]+:/{1,2}[\w.:=+,-]+(?:/[\w.:=+,-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    path: str
    name: str
    size_bytes: int
    is_folder: bool


class FileSystem:
    """File operations of sources, sinks and snapshots. Every call blocks."""

    def __init__(self, session: SparkSession) -> None:
        context = session.sparkContext
        assert context._gateway is not None
        self._gateway = context._gateway
        self._path = jvm_class(context, "org.apache.hadoop.fs.Path")
        self._file_util = jvm_class(context, "org.apache.hadoop.fs.FileUtil")
        self._configuration = context._jsc.hadoopConfiguration()

    def local(self, path: str) -> str | None:
        """Return the path of a local file or folder on this machine; None if only the JVM can access it.

        Relative paths are left to the JVM, because they are relative to its working directory.
        """
        if path.startswith(_LOCAL):
            plain = path.removeprefix(_LOCAL)
            plain = plain.removeprefix("//") if plain.startswith("///") else plain
            is_local = plain.startswith("/") and not plain.startswith("//")
            return plain if is_local and self._is_of_hadoop else None
        return path if path.startswith("/") and self._is_local_by_default else None

    @cached_property
    def _is_of_hadoop(self) -> bool:
        return str(self._of(self._path("file:///")).getClass().getName()) in LOCAL_FILE_SYSTEMS

    @cached_property
    def _is_local_by_default(self) -> bool:
        return self._is_of_hadoop and str(self._of(self._path("/")).getUri().getScheme()) == "file"

    def absolute(self, path: str) -> str:
        """Make a relative local path absolute, from the working directory of this process instead of the JVM's.

        The JVM stays in the directory in which it was started, even if a program or notebook has changed its own.
        """
        hadoop_path = self._path(path)
        is_local = hadoop_path.toUri().getScheme() is None and self._of(hadoop_path).getUri().getScheme() == "file"
        return os.path.abspath(path) if is_local and not hadoop_path.isAbsolute() else path

    def qualified(self, path: str) -> str:
        """Return the absolute path with its scheme, such as `file:/...`."""
        hadoop_path = self._path(path)
        return str(self._of(hadoop_path).makeQualified(hadoop_path).toString())

    def uri(self, path: str) -> str:
        """Return the path of a file as in Spark's `_metadata.file_path`: qualified, and escaped if necessary."""
        local = self.local(path)
        uri = path if local is None else f"{_LOCAL}{local}"
        if _PLAIN_URI.fullmatch(uri):
            return uri
        hadoop_path = self._path(uri)
        return str(self._of(hadoop_path).makeQualified(hadoop_path).toUri().toString())

    def exists(self, path: str) -> bool:
        """Return True if the file or folder exists."""
        if (local := self.local(path)) is not None:
            return local_files.exists(local)
        hadoop_path = self._path(path)
        return bool(self._of(hadoop_path).exists(hadoop_path))

    def is_folder(self, path: str) -> bool:
        """Return True if the path is an existing folder."""
        if (local := self.local(path)) is not None:
            return local_files.is_folder(local)
        hadoop_path = self._path(path)
        filesystem = self._of(hadoop_path)
        return bool(filesystem.exists(hadoop_path) and filesystem.getFileStatus(hadoop_path).isDirectory())

    def size_bytes(self, path: str) -> int:
        """Return the size of an existing file, in bytes."""
        if (local := self.local(path)) is not None:
            return local_files.size_bytes(local)
        hadoop_path = self._path(path)
        return int(self._of(hadoop_path).getFileStatus(hadoop_path).getLen())

    def list(self, folder: str) -> list[FileStatus]:
        """List the contents of a folder by name; empty if the folder does not exist."""
        if (local := self.local(folder)) is not None:
            return list(_local_statuses(local))
        hadoop_path = self._path(folder)
        filesystem = self._of(hadoop_path)
        if not filesystem.exists(hadoop_path):
            return []
        statuses = (_status(status) for status in filesystem.listStatus(hadoop_path))
        return sorted(statuses, key=lambda status: status.name)

    def files_below(self, folder: str) -> Iterator[FileStatus]:
        """Yield the files in a folder and its subfolders, except files that Spark hides.

        Hidden names begin with `.` or `_`, except for partitions such as `_day=1`.
        """
        for status in self.list(folder):
            if is_hidden(status.name):
                continue
            if status.is_folder:
                yield from self.files_below(status.path)
            else:
                yield status

    def bytes_below(self, folder: str) -> int:
        """Return the total size of the files in a folder, in bytes."""
        return sum(file.size_bytes for file in self.files_below(folder))

    def paths_below(self, folder: str, begin: Callable[[str], object] = lambda folder: None) -> Iterator[str]:
        """Yield the paths of `files_below`, with one call per folder.

        `begin` is called with each local folder before the folder is listed.
        """
        if (local := self.local(folder)) is not None:
            yield from (f"{_LOCAL}{path}" for path in local_files.files_below(local, is_hidden, begin))
            return
        hadoop_path = self._path(folder)
        filesystem = self._of(hadoop_path)
        if not filesystem.exists(hadoop_path):
            return
        statuses = filesystem.listStatus(hadoop_path)
        for number, path in enumerate(self._paths(statuses)):
            name = path.rsplit("/", 1)[-1]
            if is_hidden(name):
                continue
            # To save calls, a name with a suffix is assumed to be a file unless it names a partition.
            may_be_folder = "=" in name or "." not in name
            if may_be_folder and statuses[number].isDirectory():
                yield from self.paths_below(path)
            else:
                yield path

    def open(self, path: str) -> Any:
        """Open a file for reading with pyarrow instead of the JVM. pyarrow does not support every address.

        Raises:
            OSError: the file does not exist or may not be read.
            pyarrow.ArrowException: the address is not supported.
        """
        # Hadoop writes `file:/folder/name` without escaping.
        if path.startswith(("/", _LOCAL)):
            return fs.LocalFileSystem().open_input_file("/" + path.removeprefix(_LOCAL).lstrip("/"))
        filesystem, inner = fs.FileSystem.from_uri(path)
        return filesystem.open_input_file(inner)

    def rename(self, source: str, target: str) -> bool:
        """Rename a file. Return False if the file system fails, which it does without a reason."""
        local, local_target = self.local(source), self.local(target)
        if local is not None and local_target is not None:
            return local_files.rename(local, local_target)
        hadoop_path = self._path(source)
        return bool(self._of(hadoop_path).rename(hadoop_path, self._path(target)))

    def copy(self, source: str, target: str) -> None:
        """Copy a file, or a folder with its contents, to a path that does not exist. Creates missing parent folders.

        Raises:
            OSError: the file system failed.
        """
        source_path, target_path = self._path(source), self._path(target)
        source_fs, target_fs = self._of(source_path), self._of(target_path)
        try:
            target_fs.mkdirs(target_path.getParent())
            copied = self._file_util.copy(source_fs, source_path, target_fs, target_path, False, self._configuration)
        except Py4JJavaError as refused:
            raise OSError(str(refused.java_exception.getMessage())) from refused
        if not copied:
            raise OSError(f"{source} cannot be copied to {target}")

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its contents. Does nothing if it does not exist."""
        if (local := self.local(path)) is not None:
            local_files.delete(local)
            return
        hadoop_path = self._path(path)
        self._of(hadoop_path).delete(hadoop_path, True)

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents.

        Raises:
            OSError: the file system failed.
        """
        if (local := self.local(path)) is not None:
            local_files.make_folder(local)
            return
        hadoop_path = self._path(path)
        try:
            is_created = self._of(hadoop_path).mkdirs(hadoop_path)
        except Py4JJavaError as refused:
            raise OSError(str(refused.java_exception.getMessage())) from refused
        if not is_created:
            raise OSError("the folder cannot be created")

    def read(self, path: str) -> bytes:
        """Read a small file completely. Raises `FileNotFoundError` or another `OSError`."""
        hadoop_path = self._path(path)
        with _os_errors():
            stream = self._of(hadoop_path).open(hadoop_path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, path: str, data: bytes, *, overwrite: bool = True) -> None:
        """Write a small file, which replaces an existing file. Raises `OSError`.

        Without `overwrite`, raises `FileExistsError` if the file exists.
        """
        hadoop_path = self._path(path)
        with _os_errors():
            stream = self._of(hadoop_path).create(hadoop_path, overwrite)
            try:
                stream.write(data)
            finally:
                stream.close()

    def delete_if_empty(self, folder: str) -> bool:
        """Delete a folder if it is empty. Return whether the folder no longer exists."""
        if (local := self.local(folder)) is not None:
            return local_files.delete_if_empty(local)
        if self.list(folder):
            return False
        hadoop_path = self._path(folder)
        try:
            # Not recursive, because a file may be added in the meantime.
            self._of(hadoop_path).delete(hadoop_path, False)
        except Py4JJavaError:
            return False
        return True

    def _paths(self, statuses: Any) -> Sequence[str]:
        """Return the paths of an array of statuses in one string: py4j would call the JVM several times per path."""
        number = len(statuses)
        if not number:
            return []
        # py4j does not accept an array of Path as an array of Object.
        jvm = self._gateway.jvm
        paths = self._gateway.new_array(getattr(jvm, "java.lang.Object"), number)
        getattr(jvm, "java.lang.System").arraycopy(self._file_util.stat2Paths(statuses), 0, paths, 0, number)
        return str(getattr(jvm, "org.apache.commons.lang3.StringUtils").join(paths, _BETWEEN)).split(_BETWEEN)

    def _of(self, hadoop_path: Any) -> Any:
        return hadoop_path.getFileSystem(self._configuration)


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as refused:
        kind = refused.java_exception.getClass().getSimpleName()
        of_kind: dict[str, type[OSError]] = {
            "FileNotFoundException": FileNotFoundError,
            "FileAlreadyExistsException": FileExistsError,
        }
        raise of_kind.get(kind, OSError)(str(refused.java_exception.getMessage())) from refused


def _status(status: Any) -> FileStatus:
    path = status.getPath()
    return FileStatus(
        path=str(path.toString()),
        name=str(path.getName()),
        size_bytes=int(status.getLen()),
        is_folder=bool(status.isDirectory()),
    )


def _local_statuses(folder: str) -> Iterator[FileStatus]:
    for entry in local_files.entries(folder):
        # Ignores files that were deleted in the meantime, and broken links.
        with suppress(FileNotFoundError):
            yield FileStatus(
                path=f"{_LOCAL}{folder.rstrip('/')}/{entry.name}",
                name=entry.name,
                size_bytes=entry.stat().st_size,
                is_folder=entry.is_dir(),
            )
