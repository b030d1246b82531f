"""A disk that loses power: an ext4 file system in an image file, which retains only synced data.

The kernel writes no data back by itself for minutes, so that a missing fsync has an effect. Needs root and loop
devices.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

IMAGE = "disk.img"
AT_POWER_LOSS = "disk-at-power-loss.img"
"""The copy of the image from the moment of the power failure."""

_SIZE = "256M"
# Seconds between commits of the journal; the default of 5 would hide missing syncs.
_MOUNT_OPTIONS = "loop,commit=600"


class Disk:
    """A disk whose images are in `folder`, mounted at `folder / "disk"`."""

    def __init__(self, folder: Path) -> None:
        self.mounted = folder / "disk"
        self._folder = folder
        self._image = folder / IMAGE

    def create(self) -> None:
        """Create an empty file system and mount it. Raises `CalledProcessError` without root or loop devices."""
        self.mounted.mkdir()
        _run("truncate", "--size", _SIZE, str(self._image))
        _run("mkfs.ext4", "-q", str(self._image))
        self._mount()

    def restore_power(self) -> None:
        """Mount the disk in its state at the power failure, instead of its current state."""
        self.remove()
        (self._folder / AT_POWER_LOSS).rename(self._image)
        self._mount()

    def remove(self) -> None:
        """Unmount the disk; processes with open files on it keep using the old one."""
        _run("umount", "--lazy", str(self.mounted))

    def _mount(self) -> None:
        _run("mount", "-o", _MOUNT_OPTIONS, str(self._image), str(self.mounted))


def fail_power(mounted: Path) -> None:
    """Copy the image of a mounted disk in its current state, without data that the kernel has not written yet."""
    shutil.copyfile(mounted.parent / IMAGE, mounted.parent / AT_POWER_LOSS)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
