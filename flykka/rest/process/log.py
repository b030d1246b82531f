"""The log of this process, as far as it is kept in memory, and the files that it is written to besides.

A handler at the logger `flykka` keeps the last lines; it changes nothing of what others are told. That includes
Python's last resort, which prints warnings where there is no handler: with this one alone it would not, and so it is
called from here.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_BYTES = 1024 * 1024
"""So much of the log is kept, its end."""

LOG_NAME = "flykka.log"
"""The name of what is kept in memory, in the list of logs."""

_LOGGER = "flykka"
_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
_STDOUT = Path("/proc/self/fd/1")


class ProcessLog(logging.Handler):
    """Keeps the end of the log from `attach` to `detach`: what loggers at and below `flykka` let through."""

    def __init__(self, most_bytes: int = LOG_BYTES) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._most = most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed_at = time.time()

    def attach(self) -> None:
        logging.getLogger(_LOGGER).addHandler(self)

    def detach(self) -> None:
        logging.getLogger(_LOGGER).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, with the trace of its exception."""
        line = f"{self.format(record)}\n".encode(errors="replace")[-self._most :]
        self._lines.append(line)
        self._bytes += len(line)
        self._changed_at = record.created
        while self._bytes > self._most:
            self._bytes -= len(self._lines.popleft())
        _last_resort(record, self)

    def text(self) -> str:
        with self._at_rest():
            return b"".join(self._lines).decode(errors="replace")

    def files(self) -> dict[str, Path]:
        """The files that handlers of any logger write to, by names that are told apart."""
        found: dict[str, Path] = {}
        for path in dict.fromkeys(_log_files()):
            name = path.name if path.name not in {LOG_NAME, *found} else f"{len(found)}-{path.name}"
            found[name] = path
        return found

    def sizes(self) -> list[tuple[str, int, int]]:
        """List what there is to be read: names, sizes in bytes, and the times of the last change in ms."""
        with self._at_rest():
            kept = (LOG_NAME, self._bytes, round(self._changed_at * 1_000))
        there = ((name, path.stat()) for name, path in self.files().items())
        return [kept, *((name, file.st_size, file.st_mtime_ns // 1_000_000) for name, file in there)]

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Nothing is added in this block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()


def standard_output() -> Path | None:
    """The file that the output of the process goes to; None where that is a terminal or a pipe, or is not known."""
    try:
        return _STDOUT if _STDOUT.exists() and stat.S_ISREG(os.fstat(1).st_mode) else None
    except OSError:
        return None


def _log_files() -> Iterator[Path]:
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    for logger in loggers:
        # A name that only others stand below is a placeholder.
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if isinstance(handler, logging.FileHandler) and (path := Path(handler.baseFilename)).is_file():
                yield path


def _last_resort(record: logging.LogRecord, own: ProcessLog) -> None:
    """Print what is printed where nobody has set up logging, once."""
    first, last_resort = None, logging.lastResort
    for handler in _handlers(record.name):
        if not isinstance(handler, ProcessLog):
            return
        first = first or handler
    if first is own and last_resort is not None and record.levelno >= last_resort.level:
        last_resort.handle(record)


def _handlers(name: str) -> Iterator[logging.Handler]:
    """The handlers that a record of this logger reaches."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
