"""The owners of a job's staged rows: processes that ran the job one after the other, each with a higher number.

    <staging folder of the job>/<number of the owner>/<uid>-<subtask>-of-<parallelism>/<attempt>-<batch>/

A new owner moves the folders of those before it into its own, to `<number>/from-<former number>/`, before it chooses
the checkpoint to continue from. A predecessor that was paused and wakes up does not find the rows that it wanted to
publish; rows that it stages afterwards are not published either, because it finds the folder of a later owner first.
A checkpoint names rows by the path at which they were staged: `StagingOwner.find` follows them.

Renaming a folder is atomic on local file systems and HDFS. On an object store it copies object by object: a predecessor
that wakes up during these copies may publish one more file, between its look for a later owner and its rename.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.actors.checkpoint_storage.staged_paths import BEFORE_NUMBERS, FROM, current_path, folders_above
from flykka.actors.errors import OwnershipLostError
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingOwner:
    """The owner `number` of the rows that a job stages in `root`, a path with its scheme."""

    filesystem: FileSystem
    root: str
    number: int

    @property
    def folder(self) -> str:
        return f"{self.root}/{self.number}"

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process has become the owner. One listing."""
        later = [
            number for number in map(_number, self._names(self.root)) if number is not None and number > self.number
        ]
        if later:
            raise OwnershipLostError(
                f"this process was replaced as the owner of {self.root}: it is number {self.number}, and number"
                f" {max(later)} has continued the job; what it had not published is published there"
            )

    def take_over(self) -> None:
        """Move what owners before this one have staged into its folder. May be repeated.

        Raises:
            OwnershipLostError: there is a later owner already.
            SinkError: a folder cannot be moved.
        """
        self.check()
        former = [name for name in self._names(self.root) if name != str(self.number)]
        if not former:
            return
        # It is there before the first folder is moved: a predecessor either finds it, or has its rows moved away.
        self.filesystem.make_folder(self.folder)
        for name in sorted(former, key=lambda name: (_number(name) is None, name)):
            place = f"{self.root}/{name}"
            if _number(name) is None:
                self._move(place, f"{self.folder}/{FROM}{BEFORE_NUMBERS}/{name}")
                continue
            for moved in self.filesystem.list(place):
                if moved.name.startswith(FROM):
                    self._move(f"{place}/{moved.name}", f"{self.folder}/{moved.name}")
            self._move(place, f"{self.folder}/{FROM}{name}")

    def find(self, path: str) -> str:
        """Return where a staged file or folder is that a checkpoint has recorded as `path`, of this job or another.

        Another job's rows were moved by the same owner.
        """
        return current_path(path, self._names, self.filesystem.exists, self.number)

    def taken_over(self) -> list[str]:
        """The folders of former owners that this one has moved."""
        return [f"{self.folder}/{name}" for name in self._names(self.folder) if name.startswith(FROM)]

    def delete(self) -> None:
        """Delete what this owner has staged or taken over, and the job's folder unless it is in use by another one."""
        self.filesystem.delete(self.folder)
        if self.filesystem.delete_if_empty(self.root):
            self.filesystem.delete_if_empty(self.root.rsplit("/", 1)[0])

    def _names(self, folder: str) -> list[str]:
        return [status.name for status in self.filesystem.list(folder)]

    def _move(self, source: str, target: str) -> None:
        if not self.filesystem.exists(target):
            self.filesystem.make_folder(target.rsplit("/", 1)[0])
            if self.filesystem.rename(source, target) or not self.filesystem.exists(source):
                return
            raise SinkError(f"{source}, which a former owner of the job has staged, cannot be moved to {target}")
        # A store without an atomic rename has moved a part of it when the owner that did so ended.
        for status in self.filesystem.list(source):
            self._move(f"{source}/{status.name}", f"{target}/{status.name}")
        self.filesystem.delete(source)


def delete_empty(filesystem: FileSystem, staged: str) -> None:
    """Delete the folders above a staged file or folder that are empty, up to the staging folder of its job."""
    for folder in folders_above(staged):
        if not filesystem.delete_if_empty(folder):
            return


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() else None
