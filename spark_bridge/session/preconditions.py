"""Checks before a JVM of Spark is started: Spark would report these problems late, or with pages of Java.

Each check raises `SessionError` with the cause and the remedy.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
from collections.abc import Iterable

from flykka.spark_bridge.errors import SessionError

OLDEST_SPARK, NEWER_SPARK = (4, 3), (4, 4)
"""The oldest supported version of PySpark, and the first version whose private APIs are not verified (setup.cfg)."""

NEEDED_FILES = 512
"""The number of files that a process must be allowed to open: the JVM first opens 260 jars."""

_OF_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_STANDALONE = "spark://"
_MASTER_PORT = 7077
_CONNECTING_SECONDS = 5.0


def check_preconditions(master: str, *, starts_jvm: bool) -> None:
    if master == "yarn" and not any(name in os.environ for name in _OF_HADOOP):
        raise SessionError(
            f"no Spark session at yarn: set {' or '.join(_OF_HADOOP)} to the folder of the cluster's core-site.xml and"
            " yarn-site.xml"
        )
    if starts_jvm:
        _check_java(master)
        _check_open_files(master)
    if master.startswith(_STANDALONE):
        _check_answers(master, master.removeprefix(_STANDALONE).split(","))


def check_version(installed: str) -> None:
    version = tuple(int(part) for part in installed.split(".")[:2])
    if not OLDEST_SPARK <= version < NEWER_SPARK:
        oldest, newer = (".".join(map(str, each)) for each in (OLDEST_SPARK, NEWER_SPARK))
        raise SessionError(
            f"PySpark {installed} is installed, but flykka calls private APIs of its JVM side, which are known from"
            f" {oldest} on, but not in {newer}: pip install 'pyspark>={oldest},<{newer}'"
        )


def _check_java(master: str) -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        raise SessionError(
            f"no Spark session at {master}: there is no bin/java in JAVA_HOME, which is {home}: set it to the folder of"
            " a Java of version 17 or newer"
        )
    if not home and shutil.which("java") is None:
        raise SessionError(
            f"no Spark session at {master}: there is no Java: install one of version 17 or newer, and set JAVA_HOME to"
            " its folder or add its bin to PATH"
        )


def _check_open_files(master: str) -> None:
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_enough(allowed):
        return
    if not _is_enough(most):
        raise SessionError(
            f"no Spark session at {master}: this process may open {most} files, but needs {NEEDED_FILES}: raise the"
            f" limit, as `ulimit -n {8 * NEEDED_FILES}` does in a shell"
        )
    # The JVM raises its own limit in the same way.
    resource.setrlimit(resource.RLIMIT_NOFILE, (NEEDED_FILES, most))


def _is_enough(files: int) -> bool:
    return files == resource.RLIM_INFINITY or files >= NEEDED_FILES


def _check_answers(master: str, addresses: Iterable[str]) -> None:
    refusals = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            number = int(port) if host else _MASTER_PORT
            with socket.create_connection((host or address, number), timeout=_CONNECTING_SECONDS):
                return
        except OSError as refused:
            refusals.append(f"{address}: {refused.strerror or refused}")
        except ValueError:
            # Spark itself reports what is wrong with such an address.
            return
    raise SessionError(
        f"no Spark session at {master}: no master answers there ({'; '.join(refusals)}): start it, or correct the"
        " address, which the master's page shows"
    )
