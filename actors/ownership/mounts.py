"""Recognises file systems that several machines may share: a lock of one machine means nothing to another there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OF_THE_NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"}
)
_OF_A_HOST = frozenset({"9p", "virtiofs", "vboxsf"})
"""A virtual machine's view of a folder of its host."""

_MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(folder: Path) -> str | None:
    """The kind of the file system that `folder` is on, if it is one of the network and this machine tells."""
    kind = _kind(folder)
    return kind if kind in OF_THE_NETWORK else None


def locks_are_shared(folder: Path) -> bool:
    """True if all processes that can reach `folder` see each other's locks there, as far as this machine knows."""
    kind = _kind(folder) or ""
    return kind not in OF_THE_NETWORK and kind not in _OF_A_HOST and not kind.startswith("fuse")


def file_system_of(folder: Path, mountinfo: str) -> str | None:
    """The kind of the file system that `folder` is on, by what Linux says of what is mounted where."""
    mounted: dict[Path, str] = {}
    for line in mountinfo.splitlines():
        before, separator, behind = line.partition(" - ")
        if separator:
            # Where something else was mounted later at the same place, that one counts.
            mounted[Path(before.split()[4].replace("\\040", " "))] = behind.split()[0]
    return next((mounted[each] for each in (folder, *folder.parents) if each in mounted), None)


def _kind(folder: Path) -> str | None:
    with suppress(OSError):
        return file_system_of(folder.resolve(), _MOUNTS.read_text())
    return None
