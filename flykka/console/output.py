"""Standard output and standard error of a run whose jobs go on when their readers have left."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, RawIOBase, TextIOWrapper
from threading import Event
from typing import Any, BinaryIO, TextIO, cast

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has left, as `head` does; the other end of a terminal was closed."""

_STDOUT = 1
_LOOK_MS = 200
_PATIENCE_MS = 2_000
"""The time to wait for printed output when the run is to end: a connection that was lost may not say so."""


class _LastingDescriptor(RawIOBase):
    """A file descriptor of the process that takes whatever is written, whether it can be read or not."""

    def __init__(self, descriptor: int, hurry: Event) -> None:
        self._descriptor = descriptor
        self._hurry = hurry
        # What others let standard error lead to meanwhile, we follow.
        self._own = _own_terminal(descriptor) if descriptor == _STDOUT else descriptor

    def fileno(self) -> int:
        """Of the descriptor itself: child processes write there too."""
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Close what is ours; the descriptor is not."""
        if not self.closed and self._own != self._descriptor:
            os.close(self._own)
        super().close()

    def write(self, data: Any) -> int:
        """Write as a file does; what cannot be written, because its disk is full say, is lost."""
        rest = memoryview(data).cast("B")
        while rest:
            if not self._takes_more():
                self._read_by_nobody()
            try:
                rest = rest[os.write(self._own, rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                continue
            except OSError as refused:
                if refused.errno in _NOBODY_READS:
                    self._read_by_nobody()
                break
        return memoryview(data).nbytes

    def _takes_more(self) -> bool:
        """Wait until it does; False where it does not, and there is no time to wait."""
        poll = select.poll()
        poll.register(self._own, select.POLLOUT)
        while not poll.poll(_LOOK_MS):
            if self._hurry.is_set():
                return bool(poll.poll(_PATIENCE_MS))
        return True

    def _read_by_nobody(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in {self._descriptor, self._own}:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _own_terminal(descriptor: int) -> int:
    """The terminal of a descriptor, opened once more: writes that never block are then ours alone.

    Else the descriptor itself: a short write does not block where a pipe has room.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return descriptor


@contextmanager
def lasting_output(hurry: Event | None = None) -> Iterator[None]:
    """Let no printing in this process fail until the end of the `with`.

    When the reader of a pipe has left, or the terminal has gone, it goes nowhere; and when nothing was read for some
    seconds after `hurry` was set. A character that the encoding does not know, in the name of a job say, is written as
    its number.
    """
    hurry = hurry or Event()
    before = sys.stdout, sys.stderr
    lasting = _lasting(sys.stdout, sys.__stdout__, hurry), _lasting(sys.stderr, sys.__stderr__, hurry)
    sys.stdout, sys.stderr = lasting
    try:
        yield
    finally:
        for stream in lasting:
            # It is None where the process was started without.
            if isinstance(stream, TextIOWrapper):
                stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO, original: TextIO | None, hurry: Event) -> TextIO:
    """The stream over a descriptor that lasts, where it is the one that Python has started with."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    if stream is not original:
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    descriptor = _LastingDescriptor(stream.fileno(), hurry)
    return TextIOWrapper(
        # As `python -u` has it.
        cast(BinaryIO, descriptor) if isinstance(stream.buffer, RawIOBase) else BufferedWriter(descriptor),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
