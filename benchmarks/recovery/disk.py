"""A disk that loses power: an ext4 file system in an image file, of which only what was synced is sure to be there.

Its kernel writes back nothing by itself for minutes, so that a missing fsync shows. Needs root and loop devices.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

IMAGE = "disk.img"
AT_POWER_LOSS = "disk-at-power-loss.img"
"""The copy of the image that is made at the moment at which the power fails."""

_SIZE = "256M"
# Seconds between the commits of the journal: the default of 5 would hide what was not synced.
_MOUNT_OPTIONS = "loop,commit=600"


class Disk:
    """A disk whose images lie in `folder`, mounted at `folder / "disk"`."""

    def __init__(self, folder: Path) -> None:
        self.mounted = folder / "disk"
        self._folder = folder
        self._image = folder / IMAGE

    def create(self) -> None:
        """Make an empty file system and mount it. Raises `CalledProcessError` without root or loop devices."""
        self.mounted.mkdir()
        _run("truncate", "--size", _SIZE, str(self._image))
        _run("mkfs.ext4", "-q", str(self._image))
        self._mount()

    def restore_power(self) -> None:
        """Mount the disk as it was when the power failed, in place of the present one."""
        self.remove()
        (self._folder / AT_POWER_LOSS).rename(self._image)
        self._mount()

    def remove(self) -> None:
        """Unmount the disk; whatever still has a file open on it keeps the old one."""
        _run("umount", "--lazy", str(self.mounted))

    def _mount(self) -> None:
        _run("mount", "-o", _MOUNT_OPTIONS, str(self._image), str(self.mounted))


def fail_power(mounted: Path) -> None:
    """Copy the image of a mounted disk as it is now: what the kernel has not written yet is not in it."""
    shutil.copyfile(mounted.parent / IMAGE, mounted.parent / AT_POWER_LOSS)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
