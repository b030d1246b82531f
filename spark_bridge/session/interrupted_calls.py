"""Calls of the JVM that Ctrl-C or the end of the JVM interrupts.

Py4J logs a page at the root logger before it passes such an error on. What handles the error reports it: `flykka run`
stops the jobs and a notebook ends the cell at a Ctrl-C, and a job fails without a JVM.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("flykka.spark_bridge")

_TEXTS = ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def _is_other(record: logging.LogRecord) -> bool:
    if record.msg not in _TEXTS:
        return True
    logger.debug(record.msg, exc_info=record.exc_info)
    return False


def let_py4j_pass_errors_on() -> None:
    """Log what Py4J logs of an interrupted call for debugging only; its error is raised all the same."""
    logging.getLogger().addFilter(_is_other)
