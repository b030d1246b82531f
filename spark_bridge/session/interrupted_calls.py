"""Calls of the JVM that Ctrl-C or the end of the JVM interrupts.

Py4J logs a page at the root logger before it passes such an error on. What handles the error reports it: `flykka run`
stops the jobs and a notebook ends the cell at a Ctrl-C, and a job fails without a JVM.

After a Ctrl-C Py4J closes the connections of all threads, because it compares the address of the JVM, which is the same
for each. The calls that a job makes on other threads fail then, and so may the next call of the interrupted thread.
"""

from __future__ import annotations

import logging

from py4j.clientserver import ClientServerConnection

logger = logging.getLogger("flykka.spark_bridge")

_TEXTS = ("KeyboardInterrupt while sending command.", "Exception while sending command.")

_send_command = ClientServerConnection.send_command


def isolate_interrupted_calls() -> None:
    """Let a Ctrl-C end one call of the JVM and no other, and log it for debugging only; its error is raised."""
    logging.getLogger().addFilter(_is_other)
    ClientServerConnection.send_command = _close_if_interrupted


def _is_other(record: logging.LogRecord) -> bool:
    if record.msg not in _TEXTS:
        return True
    logger.debug(record.msg, exc_info=record.exc_info)
    return False


def _close_if_interrupted(connection: ClientServerConnection, command: str) -> str:
    try:
        return str(_send_command(connection, command))
    except KeyboardInterrupt:
        # Py4J looks for no other connection where this one has no socket. The thread's next call makes a new one.
        connection.close()
        raise
