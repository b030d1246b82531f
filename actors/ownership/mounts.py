"""Detects file systems that several machines may share, where a lock of one machine has no effect on another."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

OF_THE_NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"}
)
_OF_A_HOST = frozenset({"9p", "virtiofs", "vboxsf"})
"""File systems that a virtual machine shares with its host."""

_MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(folder: Path) -> str | None:
    """Return the type of the folder's file system, or None unless it is known to be a network file system."""
    kind = _kind(folder)
    return kind if kind in OF_THE_NETWORK else None


def locks_are_shared(folder: Path) -> bool:
    """Return whether all processes that can access `folder` see each other's locks, as far as this machine can tell."""
    kind = _kind(folder) or ""
    return kind not in OF_THE_NETWORK and kind not in _OF_A_HOST and not kind.startswith("fuse")


def file_system_of(folder: Path, mountinfo: str) -> str | None:
    mounted: dict[Path, str] = {}
    for line in mountinfo.splitlines():
        mount, separator, file_system = line.partition(" - ")
        if separator:
            # A later mount hides an earlier one at the same path.
            mounted[Path(mount.split()[4].replace("\\040", " "))] = file_system.split()[0]
    return next((mounted[each] for each in (folder, *folder.parents) if each in mounted), None)


def _kind(folder: Path) -> str | None:
    with suppress(OSError):
        return file_system_of(folder.resolve(), _MOUNTS.read_text())
    return None
