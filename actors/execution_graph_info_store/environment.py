"""The environment of this process, as an archive notes it."""

from __future__ import annotations

import platform

from flykka.messages.monitoring.job_details import ProcessEnvironment


def process_environment() -> ProcessEnvironment:
    """The version of Python in place of a JVM's, and the architecture of the machine."""
    return ProcessEnvironment(version=f"Python {platform.python_version()}", arch=platform.machine())
