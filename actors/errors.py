"""Why an actor's I/O fails, named for whose fault it is.

CheckpointStorageError
├── CheckpointNotFoundError    the address: nothing is there
├── CheckpointFormatError      the file: not ours, cut off, or altered
└── CheckpointVersionError     the reader: the file was written by a newer flykka
"""

from __future__ import annotations


class CheckpointStorageError(RuntimeError):
    """A file of the checkpoint storage cannot be read; the text names it."""


class CheckpointNotFoundError(CheckpointStorageError):
    """There is no such file."""


class CheckpointFormatError(CheckpointStorageError):
    """The file is not one of ours, or not whole."""


class CheckpointVersionError(CheckpointStorageError):
    """The file is of a format that this version does not know yet."""
