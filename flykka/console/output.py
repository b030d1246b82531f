"""Standard output and standard error of a run whose jobs matter more than who reads about them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, RawIOBase, TextIOWrapper
from typing import TextIO

from rich.console import Console as RichConsole

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has left, as `head` does; the other end of a terminal was closed."""


class _LastingDescriptor(FileIO):
    """A file descriptor of the process that takes whatever is written, whether it can be read or not."""

    def write(self, data) -> int:  # type: ignore[no-untyped-def] # Buffer is of Python 3.12
        """Write as a file does; what cannot be written, because its disk is full say, is lost."""
        try:
            return super().write(data)
        except OSError as refused:
            if refused.errno in _NOBODY_READS:
                # Of the descriptor itself: child processes write there too.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)
            return len(data)


@contextmanager
def lasting_output() -> Iterator[RichConsole]:
    """Have nothing that is printed in this process fail, by whomever, until the end of the `with`.

    Gives a console to print on. When the reader of a pipe has left, or the terminal has gone, what is printed goes
    nowhere. A character that the encoding does not know, in the name of a job say, is written as its number.
    """
    before = sys.stdout, sys.stderr
    lasting = _lasting(sys.stdout, sys.__stdout__), _lasting(sys.stderr, sys.__stderr__)
    sys.stdout, sys.stderr = lasting
    try:
        yield RichConsole(force_jupyter=False)
    finally:
        for stream in lasting:
            # It is None where the process was started without.
            if isinstance(stream, TextIOWrapper):
                stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO, original: TextIO | None) -> TextIO:
    """The stream over a descriptor that lasts, where it is the one that Python has started with."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    if stream is not original:
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    descriptor = _LastingDescriptor(stream.fileno(), "w", closefd=False)
    return TextIOWrapper(
        # As `python -u` has it.
        descriptor if isinstance(stream.buffer, RawIOBase) else BufferedWriter(descriptor),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
