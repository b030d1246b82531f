"""Repeated log lines: the first is written, then the 2nd, 5th, 10th, 20th, 50th and so on, with their count."""

from __future__ import annotations

import logging

_MAX_KEYS = 1_000


def is_reported(times: int) -> bool:
    return str(times).rstrip("0") in ("1", "2", "5")


class RepeatedLog:
    """Writes to the logger with this name. Lines with the same key count as repetitions.

    Actors may hold such an object: a trace can store a copy of it, which is impossible for a logger.
    """

    def __init__(self, logger_name: str) -> None:
        self._logger_name = logger_name
        self._times: dict[str, int] = {}

    def write(self, level: int, key: str, text: str) -> None:
        times = self._times.pop(key, 0) + 1
        self._times[key] = times
        if len(self._times) > _MAX_KEYS:
            del self._times[next(iter(self._times))]
        if is_reported(times):
            logging.getLogger(self._logger_name).log(
                level, "%s%s", text, f" (the same {times:,} times)" if times > 1 else ""
            )
