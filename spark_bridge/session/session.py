"""The Spark session: created for the application, or adopted from it.

A session of the user is left unchanged. The settings for flykka's plans are set on a clone of it (with the same
SparkContext, catalog and temporary views, but other settings), which `engine_session` creates.

For each Column, PySpark records the line that creates it, which takes ten JVM calls, to name it in errors. Lines of
flykka do not help a user, so they are not recorded.

When a call is interrupted by Ctrl-C or the JVM's end, Py4J logs a page at the root logger before it raises the error.
The handler of the error reports it anyway: at a Ctrl-C, `flykka run` stops the jobs and a notebook ends the cell, and
without a JVM a job fails. After a Ctrl-C Py4J closes the connections of all threads, because all have the address of
the JVM. Then calls that a job makes on other threads fail, and possibly the next call of the interrupted thread.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

import pyspark
from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import utils
from pyspark.find_spark_home import _find_spark_home
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from flykka.messages.graph.job_graph import SessionSetting
from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session import python_daemon
from flykka.spark_bridge.session.class_archive import reading_options
from flykka.spark_bridge.session.gateway import ensure_gateway
from flykka.spark_bridge.session.hadoop_configuration import forget_sources
from flykka.spark_bridge.session.jvm_classes import jvm_class, remember_classes
from flykka.spark_bridge.session.local_file_system import set_permissions_without_processes
from flykka.spark_bridge.session.preconditions import check_preconditions, check_version

if TYPE_CHECKING:
    from collections.abc import Mapping


_TEXTS = ("KeyboardInterrupt while sending command.", "Exception while sending command.")

_send_command = ClientServerConnection.send_command


def isolate_interrupted_calls() -> None:
    """Let Ctrl-C interrupt only the current Py4J call. The call still raises, but is only logged at debug level."""
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
        # If this connection has no socket, Py4J closes no others. The thread's next call creates a new connection.
        connection.close()
        raise


_is_debugging_enabled = utils.is_debugging_enabled


def record_user_lines() -> None:
    utils.is_debugging_enabled = _is_called_by_user


def _is_called_by_user() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).startswith("pyspark."):
        frame = frame.f_back
    return (frame is None or not _module(frame).startswith("flykka.")) and _is_debugging_enabled()


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


logger = logging.getLogger("flykka.spark_bridge")

_NEW_CONTEXT = {
    # A long stage must not starve the others, so every attempt has a pool.
    "spark.scheduler.mode": "FAIR",
    # Tasks take some milliseconds, but Spark would wait three seconds for the executor that has a task's rows.
    "spark.locality.wait": "100ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # For hash maps and sorters. Spark would use 64 MiB in a heap of 4 GiB, at the expense of garbage collection.
    "spark.buffer.pageSize": "2m",
    # Driver and executors each compile the code of a stage, and Spark would only cache the code of 50 stages.
    "spark.sql.codegen.cache.maxEntries": "1000",
}

CANCELLED_FOLDER = f"spark.executorEnv.{python_daemon.FOLDER_VARIABLE}"
"""The setting for the folder of cancelled attempts, which is set if Python workers check that folder."""

_OF_ONE_CONTEXT = frozenset(
    ("spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port", "spark.executor.id")
)
"""Settings that a context sets itself, and that differ in the next context."""

_ENGINE = {
    # Plans are small and many, so planning them again while they run costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
    # The union of slices must keep their partitions, but Spark would combine slices with equal partition counts.
    "spark.sql.unionOutputPartitioning": "false",
    # The number of segments in a union varies, and Spark would compile code for each number.
    "spark.sql.codegen.wholeStage.union.enabled": "false",
    # Each additional segment changes the ids of the following stages, and Spark would compile their code again.
    "spark.sql.codegen.useIdInClassName": "false",
    # Spark writes the plan of each query as a text for its UI, and the longer texts take as long as planning.
    "spark.sql.ui.explainMode": "simple",
    # Without this, shuffle files outlive the rows of a batch.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    # Event times are written to files as integers, which are exact and have min/max statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Files are read only once, but Spark would cache the status and paths of all files, in up to 250 MB of the heap.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
}


_PARTITIONS = {
    # Spark's defaults are meant for terabytes. More tasks than cores only cost time for batches.
    "spark.sql.shuffle.partitions": 200,
    # For many paths, Spark first lists them in a job with one task for each path, which took longer than reading.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": 10_000,
}
"""Partition counts: Spark's settings and their defaults. They are limited to the number of cores."""

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""JVM options that start in 4 s instead of 5 s: the quick compiler only, and a single-threaded garbage collector.

By default this compiler gets only a fifth of the code cache, which a job fills in a minute. New code is then
interpreted.
"""

_ON_ONE_MACHINE = {
    # The driver lists a hundred local files faster than it starts such a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1),
}


def spark_session(
    master: str = "local[*]",
    app_name: str = "flykka",
    config: Mapping[str, str] | None = None,
    *,
    short_lived: bool = False,
) -> SparkSession:
    """Return the active session, or a new session with `config` in addition to flykka's settings.

    The JVM of a `short_lived` session starts faster, and computes more slowly.

    Raises:
        SessionError: no session can be started, or Spark's speculation would run two copies of a task at a time.
    """
    check_version(pyspark.__version__)
    isolate_interrupted_calls()
    record_user_lines()
    if SparkContext._active_spark_context is None:
        check_preconditions(master, starts_jvm=SparkContext._gateway is None)
    else:
        _spare_jobs_from_interrupts()
        remember_classes(SparkContext)
        # Without flykka's settings, which would be applied to the user's session.
        return without_speculation(SparkSession.builder.getOrCreate())
    # Otherwise workers start the first python3 on PATH, which may lack the application's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log_options = _log_options()
    try:
        temporary = TemporaryFolder("spark", left_to_others=True)
        local = _local_settings(master)
    except OSError as refused:
        raise SessionError(f"no Spark session at {master}: {refused}") from refused
    options = (log_options, reading_options(), _SHORT_LIVED * short_lived, f'"-Djava.io.tmpdir={temporary.path}"')
    settings = {
        "spark.master": master,
        "spark.app.name": app_name,
        **_NEW_CONTEXT,
        **local,
        # Spark reads the default options before the extra options, so a user's options win.
        "spark.driver.defaultJavaOptions": " ".join(options),
        **(config or {}),
    }
    builder = SparkSession.builder
    for key, text in settings.items():
        builder = builder.config(key, text)
    with DeferredInterrupts() as interrupts:
        try:
            conf = SparkConf().setAll(list(settings.items()))
            ensure_gateway(conf)
            remember_classes(SparkContext.getOrCreate(conf))
            # The context has installed its handler by now, and creating the session takes another second.
            interrupts.defer()
            session = builder.getOrCreate()
        except Exception as failed:
            raise SessionError(f"no Spark session at {master}: {_reason(failed)}") from failed
    # The JVM outlives this process for a moment, and still uses the folder then.
    hooks = jvm_class(session.sparkContext, "org.apache.spark.util.ShutdownHookManager")
    hooks.registerShutdownDeleteDir(jvm_class(session.sparkContext, "java.io.File")(str(temporary.path)))
    if log_options:
        # Options only apply to a JVM that is started, but this JVM may have run before.
        session.sparkContext.setLogLevel("ERROR")
        # PySpark logs a line of JSON about each failed query, but a job reports its failures itself.
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    return without_speculation(session)


def restarted_session(settings: Mapping[str, str]) -> SparkSession:
    """Start a session with the settings of a stopped session, in the same JVM. Raises `SessionError` if that fails."""
    stopped = SparkContext._active_spark_context
    if stopped is not None:
        # The session was stopped only in the JVM.
        stopped.stop()
    config = {key: text for key, text in settings.items() if key not in _OF_ONE_CONTEXT}
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(config.items())))
        return SparkSession.builder.getOrCreate()
    except Exception as failed:
        raise SessionError(f"no Spark session at {config.get('spark.master')}: {_reason(failed)}") from failed


def _reason(failed: Exception) -> str:
    """Return the error in one line. For an error of the JVM this is the text of the last cause."""
    logger.debug("Spark did not start", exc_info=failed)
    text = str(failed)
    causes = re.findall(r"^(?:Caused by: |: )(.+)$", text, re.MULTILINE)
    cause = causes[-1] if causes else text.partition("\n")[0]
    if "stopped SparkContext" in cause:
        return "its master has refused or lost the application: see the master's log"
    return cause


def stop_session(session: SparkSession) -> None:
    try:
        with warnings.catch_warnings():
            # PySpark's own warning about a JVM that is gone.
            warnings.simplefilter("ignore", RuntimeWarning)
            session.stop()
    except (OSError, Py4JError) as gone:
        logger.info("Spark cannot be stopped: %s", gone)


_OF_RESULTS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings that affect results: the time zone, and whether errors and overflows raise."""

_settings: WeakKeyDictionary[SparkContext, dict[str, str]] = WeakKeyDictionary()


def settings_of(session: SparkSession) -> dict[str, str]:
    """Return the settings of the session's context, cached: they are constant and cost two JVM calls each."""
    context = session.sparkContext
    if context not in _settings:
        _settings[context] = dict(context._conf.getAll())
    return _settings[context]


def settings_of_results(session: SparkSession) -> tuple[SessionSetting, ...]:
    return tuple(SessionSetting(name=name, text=str(session.conf.get(name))) for name in _OF_RESULTS)


def session_is_there() -> bool:
    return SparkContext._active_spark_context is not None


def jobs_run() -> int:
    context = SparkContext._active_spark_context
    # The status tracker is updated later, and does not remember the oldest jobs.
    return 0 if context is None or context._jsc is None else int(context._jsc.sc().dagScheduler().numTotalJobs())


def engine_session(session: SparkSession) -> SparkSession:
    """Clone the session with the settings for plans. Raises `SessionError` for Spark Connect or a stopped context."""
    context = getattr(session, "sparkContext", None)
    if not isinstance(context, SparkContext) or context._jsc is None:
        raise SessionError("flykka needs a classic Spark session (not Spark Connect) with a running context")
    is_local = str(context.master).startswith("local")
    if is_local:
        set_permissions_without_processes(context)
    forget_sources(context)
    clone = SparkSession(context, session._jsparkSession.cloneSession())
    for key, text in _ENGINE.items():
        clone.conf.set(key, text)
    for key, text in _ON_ONE_MACHINE.items() if is_local else ():
        clone.conf.set(key, text)
    for key, partitions in _PARTITIONS.items():
        configured = int(clone.conf.get(key) or partitions)
        clone.conf.set(key, str(min(configured, max(1, context.defaultParallelism))))
    return clone


def has_one_machine(session: SparkSession) -> bool:
    return re.fullmatch(r"local(\[[\d*, ]+\])?", str(session.sparkContext.master)) is not None


def without_speculation(session: SparkSession) -> SparkSession:
    """Raises `SessionError` if Spark may run two copies of a task, which would both write state."""
    if not has_one_machine(session) and str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise SessionError(
            f"spark.speculation is true at {session.sparkContext.master}: Spark would run a task twice concurrently,"
            " and both would write state and send records: stop the session, and set it to false for flykka's jobs,"
            " also in spark-defaults.conf"
        )
    return session


def _local_settings(master: str) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if _workers_find_flykka():
        # On other machines it is unknown which packages the workers can import.
        settings["spark.python.daemon.module"] = python_daemon.__name__
        settings[CANCELLED_FOLDER] = str(TemporaryFolder("cancelled").path)
    return settings


def _log_options() -> str:
    """Return the option for flykka's log settings; empty if the user's Spark configuration has its own."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    if Path(folder, "log4j2.properties").exists():
        return ""
    return f"-Dlog4j2.configurationFile={Path(__file__).resolve().with_name('log4j2.properties').as_uri()}"


def _workers_find_flykka() -> bool:
    """Return whether a new interpreter can import this package, because it is installed or on PYTHONPATH."""
    try:
        distribution("flykka")
    except PackageNotFoundError:
        root = Path(__file__).parents[3].resolve()
        roots = (Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
        return root in roots
    return True


def _spare_jobs_from_interrupts() -> None:
    """Remove the SIGINT handler installed by the SparkContext of a user's session, if it is still there."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == SparkContext.__module__:
            # Interrupts now act as without Spark, because the handler that Spark has replaced is unknown.
            signal.signal(signal.SIGINT, signal.default_int_handler)


class DeferredInterrupts:
    """Defers Ctrl-C while Spark starts, and then restores the handler: SparkContext's handler cancels all its jobs.

    With that handler, interrupting a notebook cell would also cancel all background stages. Only the main thread may
    set handlers, and SparkContext does so only there. While Spark starts, an interrupt waits, because Py4J would print
    pages about it and leave a partly created context. A second interrupt does not wait.
    """

    def __enter__(self) -> Self:
        self._handler = signal.getsignal(signal.SIGINT)
        self._keeps = threading.current_thread() is threading.main_thread() and self._handler is not None
        self._interrupts = 0
        self.defer()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if not self._keeps:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._interrupts and kind is None:
            signal.raise_signal(signal.SIGINT)

    def defer(self) -> None:
        """Defer the first interrupt to the end of the `with` block, unless interrupts are ignored anyway."""
        if self._keeps:
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._handler is signal.SIG_IGN else self._on_interrupt)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
