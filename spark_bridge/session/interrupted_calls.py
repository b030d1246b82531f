"""Ctrl-C during a call of the JVM.

Py4J logs a page at the root logger before it passes the KeyboardInterrupt on. The handler of the interrupt
reports it: `flykka run` stops the jobs, a notebook ends the cell.
"""

from __future__ import annotations

import logging

_TEXT = "KeyboardInterrupt while sending command."


def _is_other(record: logging.LogRecord) -> bool:
    return record.msg != _TEXT


def let_py4j_pass_interrupts_on() -> None:
    """Drop the record that Py4J logs of an interrupted call; the KeyboardInterrupt is raised all the same."""
    logging.getLogger().addFilter(_is_other)
