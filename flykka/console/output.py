"""Standard output and standard error of a run that continues even if its output has no reader any more."""

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

_NO_READER = (errno.EPIPE, errno.EIO)
"""The errors of a pipe whose reader, such as `head`, has exited, and of a closed terminal."""

_STDOUT = 1
_LOOK_MS = 200
_PATIENCE_MS = 2_000
"""Milliseconds to wait for a reader at the end of the run. A lost connection may not report an error."""


class _LastingDescriptor(RawIOBase):
    """A file descriptor of the process that accepts all output, whether there is a reader or not."""

    def __init__(self, descriptor: int, hurry: Event) -> None:
        self._descriptor = descriptor
        self._hurry = hurry
        # If other code redirects standard error, the redirection must apply to this stream too.
        self._own = _reopen_terminal(descriptor) if descriptor == _STDOUT else descriptor

    def fileno(self) -> int:
        """Return the original descriptor, because child processes write to it too."""
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed and self._own != self._descriptor:
            os.close(self._own)
        super().close()

    def write(self, data: Any) -> int:
        """Write like a file, but discard output that cannot be written, for example because the disk is full."""
        rest = memoryview(data).cast("B")
        while rest:
            if not self._accepts_output():
                self._discard_output()
            try:
                rest = rest[os.write(self._own, rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                continue
            except OSError as refused:
                if refused.errno in _NO_READER:
                    self._discard_output()
                break
        return memoryview(data).nbytes

    def _accepts_output(self) -> bool:
        """Wait until the descriptor accepts output. Returns False if it does not in time."""
        poll = select.poll()
        poll.register(self._own, select.POLLOUT)
        while not poll.poll(_LOOK_MS):
            if self._hurry.is_set():
                return bool(poll.poll(_PATIENCE_MS))
        return True

    def _discard_output(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in {self._descriptor, self._own}:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _reopen_terminal(descriptor: int) -> int:
    """Open the terminal of a descriptor again, so that only the writes of this process are non-blocking.

    If that fails, return the descriptor itself: a short write does not block if there is room in the pipe.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return descriptor


@contextmanager
def lasting_output(hurry: Event | None = None) -> Iterator[None]:
    """Suppress errors of printing in this process during the `with` block.

    Output is discarded when the reader of a pipe has exited or the terminal is closed, and also when nothing has been
    read for some seconds after `hurry` is set. Characters that the encoding cannot represent, for example in the name
    of a job, are escaped.
    """
    hurry = hurry or Event()
    before = sys.stdout, sys.stderr
    lasting = _lasting(sys.stdout, sys.__stdout__, hurry), _lasting(sys.stderr, sys.__stderr__, hurry)
    sys.stdout, sys.stderr = lasting
    try:
        yield
    finally:
        for stream in lasting:
            # The stream is None if the process was started without it.
            if isinstance(stream, TextIOWrapper):
                stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO, original: TextIO | None, hurry: Event) -> TextIO:
    """Wrap the descriptor of a stream if the stream is the one that Python opened at its start."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    if stream is not original:
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    descriptor = _LastingDescriptor(stream.fileno(), hurry)
    return TextIOWrapper(
        # A raw buffer means unbuffered output, as with `python -u`.
        cast(BinaryIO, descriptor) if isinstance(stream.buffer, RawIOBase) else BufferedWriter(descriptor),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
