"""The log of this process: its last lines, which are kept in memory, and the log files.

A handler of the logger `flykka` keeps the last lines, without affecting other handlers. Python's handler of last resort
prints warnings only if there is no other handler. This handler would suppress those, and therefore calls it.
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
"""The maximum size in bytes of the log in memory."""

LOG_NAME = "flykka.log"

_LOGGER = "flykka"
_FORMAT = "%(asctime)s %(levelname)-8s %(name)s: %(message)s"
_STDOUT = Path("/proc/self/fd/1")


class ProcessLog(logging.Handler):
    """Keeps the last records of the logger `flykka` and its children, from `attach` to `detach`."""

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
        """Return the log files of all logging handlers, by unique names."""
        files: dict[str, Path] = {}
        for path in dict.fromkeys(_log_files()):
            name = path.name if path.name not in {LOG_NAME, *files} else f"{len(files)}-{path.name}"
            files[name] = path
        return files

    def sizes(self) -> list[tuple[str, int, int]]:
        """Return the name, the size in bytes and the modification time in ms of each available log."""
        with self._at_rest():
            in_memory = (LOG_NAME, self._bytes, round(self._changed_at * 1_000))
        there = ((name, path.stat()) for name, path in self.files().items())
        return [in_memory, *((name, file.st_size, file.st_mtime_ns // 1_000_000) for name, file in there)]

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


def standard_output() -> Path | None:
    """Return the file to which standard output is redirected, or None for a terminal, a pipe, or an unknown target."""
    try:
        return _STDOUT if _STDOUT.exists() and stat.S_ISREG(os.fstat(1).st_mode) else None
    except OSError:
        return None


def _log_files() -> Iterator[Path]:
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    for logger in loggers:
        # A name without a logger is a placeholder in the logging hierarchy.
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if isinstance(handler, logging.FileHandler) and (path := Path(handler.baseFilename)).is_file():
                yield path


def _last_resort(record: logging.LogRecord, own: ProcessLog) -> None:
    """Print a record as Python does without logging handlers, unless another `ProcessLog` prints it."""
    first, last_resort = None, logging.lastResort
    for handler in _handlers(record.name):
        if not isinstance(handler, ProcessLog):
            return
        first = first or handler
    if first is own and last_resort is not None and record.levelno >= last_resort.level:
        last_resort.handle(record)


def _handlers(name: str) -> Iterator[logging.Handler]:
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None
