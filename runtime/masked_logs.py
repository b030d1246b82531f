"""Masks secrets in flykka's log records, also for handlers of the user.

Separate from `secrets`, which user functions can reach: a contract keeps loggers out of their reach.
"""

from __future__ import annotations

import logging
from typing import Any

from flykka.runtime.secrets import masked

_LOGGER = "flykka"


def mask_logs() -> None:
    make = logging.getLogRecordFactory()
    if not isinstance(make, _MaskedRecords):
        logging.setLogRecordFactory(_MaskedRecords(make))


class _MaskedRecords:
    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **more)
        # logging.makeLogRecord requests a record without a name, and sets the name afterwards.
        name = record.name or ""
        if name == _LOGGER or name.startswith(f"{_LOGGER}."):
            text = record.getMessage()
            if (without := masked(text)) != text:
                record.msg, record.args = without, ()
            if record.exc_info:
                # A formatter uses this text, and not the exception.
                record.exc_text = masked(logging.Formatter().formatException(record.exc_info))
        return record
