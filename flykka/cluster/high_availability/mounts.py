"""Recognises network file systems, where a lock of one machine means nothing to another."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OF_THE_NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"}
)

_MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(folder: Path) -> str | None:
    """The kind of the file system that `folder` is on, if it is one of the network and this machine tells."""
    with suppress(OSError):
        kind = file_system_of(folder.resolve(), _MOUNTS.read_text())
        return kind if kind in OF_THE_NETWORK else None
    return None


def file_system_of(folder: Path, mountinfo: str) -> str | None:
    """The kind of the file system that `folder` is on, by what Linux says of what is mounted where."""
    mounted: dict[Path, str] = {}
    for line in mountinfo.splitlines():
        before, separator, behind = line.partition(" - ")
        if separator:
            # Where something else was mounted later at the same place, that one counts.
            mounted[Path(before.split()[4].replace("\\040", " "))] = behind.split()[0]
    return next((mounted[each] for each in (folder, *folder.parents) if each in mounted), None)
