"""A disk that can lose power: an ext4 image, and a copy of the data that had been written to it at some moment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

_SIZE = 48 << 20


class Disk:
    """A mounted image; `folder` is its root."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "disk"
        self._place = place
        self._image = place / "image"
        self._numbers = count()

    @contextmanager
    def mounted(self) -> Iterator[Disk]:
        """Create and mount the image; skip the test if that is not possible on this machine."""
        if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
            pytest.skip("a loss of power is tried with a mounted image, by root")
        with self._image.open("wb") as image:
            image.truncate(_SIZE)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        with _mounted(self._image, self.folder):
            yield self

    @contextmanager
    def after_power_loss(self) -> Iterator[Path]:
        """Mount a copy of the data that is on the disk at this moment, and yield the root of the copy."""
        number = next(self._numbers)
        copy = self._place / f"image-{number}"
        shutil.copyfile(self._image, copy)
        with _mounted(copy, self._place / f"after-{number}") as folder:
            yield folder


@contextmanager
def _mounted(image: Path, folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"an image cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
