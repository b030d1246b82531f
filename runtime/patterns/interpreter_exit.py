"""The shutdown of every living system when the interpreter exits.

All threads of the kernel are daemons, so that no forgotten system keeps a program alive (plain Pykka's does). They
still run while the functions of `atexit` do, and meanwhile the systems are shut down in order.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from typing import TYPE_CHECKING

from flykka.runtime.patterns.coordinated_shutdown import ShutdownReason

if TYPE_CHECKING:
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")

_living: weakref.WeakKeyDictionary[ActorSystem, int] = weakref.WeakKeyDictionary()
"""Living systems, with the process that made them: a fork has none of their threads."""


def register(system: ActorSystem) -> None:
    """Shut `system` down at the exit, if it lives until then."""
    _living[system] = os.getpid()
    # Ahead of everything that was registered before, such as the end of the recording.
    atexit.unregister(_shut_down)
    atexit.register(_shut_down)


def unregister(system: ActorSystem) -> None:
    """Forget a system that has ended."""
    _living.pop(system, None)


def _shut_down() -> None:
    systems = [system for system, process in list(_living.items()) if process == os.getpid()]
    patience_ms = max((system.coordinated_shutdown.exit_timeout_ms for system in systems), default=0)
    deadline = time.monotonic() + patience_ms / 1000
    for system in systems:
        system.coordinated_shutdown.run(ShutdownReason.INTERPRETER_EXIT)
    for system in systems:
        if not system.terminated.done() and not system.terminated.ended_within(deadline - time.monotonic()):
            logger.error(
                "the interpreter exits before actor system %s has ended; it waits for: %s",
                system.name,
                ", ".join(system.coordinated_shutdown.pending() or system.cells.living_paths()),
            )
