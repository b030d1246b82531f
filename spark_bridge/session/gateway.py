"""The JVM behind a Spark session that flykka starts.

It runs in another process group than the driver, and ignores SIGTERM. A signal to the driver's group, as Ctrl-C,
`timeout` and `kill -TERM -PGID` send it, or to every process of a service, asks for a stop with a last checkpoint, for
which the JVM is needed. It ends with the driver all the same, however that ends: its standard input is a pipe from
there, and PySpark's gateway exits when that closes.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

logger = logging.getLogger("flykka.spark_bridge")

_STDERR = 2
_LAST_WORDS_SECONDS = 5.0

_INCUBATOR = re.compile(rb"^WARNING: Using incubator modules: .*\n", re.MULTILINE)
"""Warning about a module that Spark's launcher asks for, printed before any option can suppress it. It is harmless."""


def ensure_gateway(conf: SparkConf) -> None:
    """Start the JVM, unless this process has one."""
    with SparkContext._lock:
        if SparkContext._gateway is None:
            SparkContext._ensure_initialized(conf=conf, gateway=_launched(conf))


def close_gateway() -> None:
    """End the JVM of this process, if there is one, and wait for its end; no session can be started afterwards."""
    gateway = SparkContext._gateway
    if gateway is not None and gateway.proc is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _launched(conf: SparkConf) -> JavaGateway:
    reading, writing = os.pipe()
    stderr = Thread(target=_forward, args=(reading,), name="jvm-stderr", daemon=True)
    stderr.start()
    try:
        options = {"start_new_session": True, "stderr": writing}
        gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call] # PySpark's
    except BaseException:
        os.close(writing)
        # The reason is printed before the error.
        stderr.join(_LAST_WORDS_SECONDS)
        raise
    os.close(writing)
    if gateway.proc is not None:
        _ignore_sigterm(gateway)
    return gateway


def _ignore_sigterm(gateway: JavaGateway) -> None:
    misc = gateway.jvm.sun.misc
    try:
        misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)
    except Py4JJavaError as refused:
        # With -Xrs the user wants it to end as any process.
        logger.info("the JVM of Spark ends at a SIGTERM: %s", refused)


def _forward(reading: int) -> None:
    """Copy the JVM's stderr to ours, until it ends."""
    while written := os.read(reading, 65_536):
        # Where our stderr is closed, the JVM must not block.
        with suppress(OSError):
            os.write(_STDERR, _INCUBATOR.sub(b"", written))
    os.close(reading)
