"""The Spark session: made for the application, or adopted from it.

A session of the user's is left as it was found. The settings of our plans are set on a clone of it (the same
SparkContext, catalog and temporary views, other settings), which `engine_session` makes.

PySpark notes with each Column the line that makes it, which takes ten calls of the JVM, and names that line in errors.
A line of ours tells a user nothing.

Py4J logs a page at the root logger before it passes on the error of a call interrupted by Ctrl-C or the JVM's end.
What handles the error reports it: `flykka run` stops the jobs and a notebook ends the cell at a Ctrl-C, and a job fails
without a JVM. After a Ctrl-C Py4J closes the connections of all threads, because it compares the address of the JVM,
which is the same for each. The calls that a job makes on other threads fail then, and so may the next call of the
interrupted thread.
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

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import utils
from pyspark.find_spark_home import _find_spark_home
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session import python_daemon
from flykka.spark_bridge.session.class_archive import reading_options
from flykka.spark_bridge.session.gateway import ensure_gateway
from flykka.spark_bridge.session.hadoop_configuration import forget_sources
from flykka.spark_bridge.session.jvm_classes import jvm_class, remember_classes
from flykka.spark_bridge.session.local_file_system import set_permissions_without_processes
from flykka.spark_bridge.session.preconditions import check_preconditions

if TYPE_CHECKING:
    from collections.abc import Mapping


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


_is_debugging_enabled = utils.is_debugging_enabled


def note_lines_of_users() -> None:
    """Let PySpark note no line of flykka's."""
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
    # One long stage must not starve the others: every attempt has its own pool.
    "spark.scheduler.mode": "FAIR",
    # Our tasks take some milliseconds: Spark would have one wait three seconds for the executor that has its rows.
    "spark.locality.wait": "100ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Of hash maps and sorters: Spark would take 64 MiB in a heap of 4 GiB, and the garbage collector pays for it.
    "spark.buffer.pageSize": "2m",
    # The driver and the executors compile the code of a stage each: Spark would remember that of 50 stages.
    "spark.sql.codegen.cache.maxEntries": "1000",
}

CANCELLED_FOLDER = f"spark.executorEnv.{python_daemon.FOLDER_VARIABLE}"
"""The setting that names the folder in which cancelled attempts are noted, where Python workers look there."""

_OF_ONE_CONTEXT = frozenset(
    ("spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port", "spark.executor.id")
)
"""Settings that a context adds itself: the next one has others."""

_ENGINE = {
    # Our plans are small and many: planning them again while they run costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
    # Slices that are planned side by side stay separate partitions: Spark would run two of one partition as one.
    "spark.sql.unionOutputPartitioning": "false",
    # Kept segments are joined together, in other numbers each time: Spark would compile code for each number of them.
    "spark.sql.codegen.wholeStage.union.enabled": "false",
    # With each segment more the stages behind it have other numbers, and code with other names would be compiled again.
    "spark.sql.codegen.useIdInClassName": "false",
    # Shuffle files outlive the rows of a batch otherwise.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    # Event times go into files as integers: exact, and with statistics of a file's range.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A file is read once: Spark would keep the status of each, with its paths, until they fill 250 MB of the heap.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
}


_PARTITIONS = {
    # Spark's defaults are meant for terabytes; more tasks than cores only cost here.
    "spark.sql.shuffle.partitions": 200,
    # Where many paths are read, a job lists them first, each in a task: that took longer than reading.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": 10_000,
}
"""Numbers of partitions, by Spark's setting and with its default: never more than there are cores."""

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""The quick compiler alone, and a garbage collector without threads: a second sooner of five.

Alone it has room for a fifth of the code that both have: a job of a minute fills it, and all that comes is interpreted.
"""

_ON_ONE_MACHINE = {
    # The driver lists a hundred local files in less time than it takes to start that job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1),
}


def spark_session(
    master: str = "local[*]",
    app_name: str = "flykka",
    config: Mapping[str, str] | None = None,
    *,
    short_lived: bool = False,
) -> SparkSession:
    """Return the active session, or a new one with `config` over our own settings.

    The JVM of a `short_lived` one starts sooner, and computes more slowly.

    Raises:
        SessionError: no session can be started.
    """
    isolate_interrupted_calls()
    note_lines_of_users()
    if SparkContext._active_spark_context is None:
        check_preconditions(master, starts_jvm=SparkContext._gateway is None)
    else:
        _spare_jobs_from_interrupts()
        remember_classes(SparkContext)
        # Without our settings: they would be applied to the user's session.
        return SparkSession.builder.getOrCreate()
    # Workers would start the first python3 on PATH, which need not have the imports of the application.
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
        # Spark reads the default options before the extra ones: those of a user win.
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
            # The context has installed its handler, and the session takes another second.
            interrupts.defer()
            session = builder.getOrCreate()
        except Exception as failed:
            raise SessionError(f"no Spark session at {master}: {_reason(failed)}") from failed
    # The JVM outlives this process by a moment, in which it still uses the folder.
    hooks = jvm_class(session.sparkContext, "org.apache.spark.util.ShutdownHookManager")
    hooks.registerShutdownDeleteDir(jvm_class(session.sparkContext, "java.io.File")(str(temporary.path)))
    if log_options:
        # Options are for a JVM that starts: this one may have run before.
        session.sparkContext.setLogLevel("ERROR")
        # PySpark writes a line of JSON about each query that fails; failures of a job are reported with it.
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    return session


def restarted_session(settings: Mapping[str, str]) -> SparkSession:
    """Start a session with the settings of one that was stopped, in the same JVM.

    Raises:
        SessionError: no session can be started.
    """
    stopped = SparkContext._active_spark_context
    if stopped is not None:
        # It was stopped on the JVM's side only.
        stopped.stop()
    kept = {key: text for key, text in settings.items() if key not in _OF_ONE_CONTEXT}
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(kept.items())))
        return SparkSession.builder.getOrCreate()
    except Exception as failed:
        raise SessionError(f"no Spark session at {kept.get('spark.master')}: {_reason(failed)}") from failed


def _reason(failed: Exception) -> str:
    """The text of an error in one line, and of one that has come from the JVM its last cause alone."""
    logger.debug("Spark did not start", exc_info=failed)
    text = str(failed)
    causes = re.findall(r"^(?:Caused by: |: )(.+)$", text, re.MULTILINE)
    cause = causes[-1] if causes else text.partition("\n")[0]
    if "stopped SparkContext" in cause:
        return "its master has refused or lost the application: see the master's log"
    return cause


def stop_session(session: SparkSession) -> None:
    """Stop a session, unless its JVM is gone."""
    try:
        with warnings.catch_warnings():
            # PySpark's own, for a JVM that is gone.
            warnings.simplefilter("ignore", RuntimeWarning)
            session.stop()
    except (OSError, Py4JError) as gone:
        logger.info("Spark cannot be stopped: %s", gone)


_settings: WeakKeyDictionary[SparkContext, dict[str, str]] = WeakKeyDictionary()


def settings_of(session: SparkSession) -> dict[str, str]:
    """The settings of the session's context, which do not change while it runs: each is two calls of the JVM."""
    context = session.sparkContext
    if context not in _settings:
        _settings[context] = dict(context._conf.getAll())
    return _settings[context]


def session_is_there() -> bool:
    return SparkContext._active_spark_context is not None


def jobs_run() -> int:
    context = SparkContext._active_spark_context
    # Its status tracker hears of jobs later, and forgets the oldest.
    return 0 if context is None or context._jsc is None else int(context._jsc.sc().dagScheduler().numTotalJobs())


def engine_session(session: SparkSession) -> SparkSession:
    """Make a session beside the user's, with the settings that our plans need.

    Raises:
        SessionError: the session is one of Spark Connect, or its context is stopped.
    """
    context = getattr(session, "sparkContext", None)
    if not isinstance(context, SparkContext) or context._jsc is None:
        raise SessionError("flykka needs a classic Spark session whose context runs")
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
    """True if all executors are in the driver's JVM."""
    return re.fullmatch(r"local(\[[\d*, ]+\])?", str(session.sparkContext.master)) is not None


def _local_settings(master: str) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if _workers_find_flykka():
        # On other machines the imports of the workers are unknown.
        settings["spark.python.daemon.module"] = python_daemon.__name__
        settings[CANCELLED_FOLDER] = str(TemporaryFolder("cancelled").path)
    return settings


def _log_options() -> str:
    """Return the option of our log settings; none where the user's configuration folder of Spark has some."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    if Path(folder, "log4j2.properties").exists():
        return ""
    return f"-Dlog4j2.configurationFile={Path(__file__).resolve().with_name('log4j2.properties').as_uri()}"


def _workers_find_flykka() -> bool:
    """Tell whether a new interpreter finds this package: it is installed, or on PYTHONPATH."""
    try:
        distribution("flykka")
    except PackageNotFoundError:
        root = Path(__file__).parents[3].resolve()
        roots = (Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
        return root in roots
    return True


def _spare_jobs_from_interrupts() -> None:
    """Remove the handler of SIGINT that the SparkContext of a user's session has installed, if it is still there."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == SparkContext.__module__:
            # An interrupt acts as without Spark. The handler that it replaced is unknown.
            signal.signal(signal.SIGINT, signal.default_int_handler)


class DeferredInterrupts:
    """Defers Ctrl-C while Spark starts, and restores the handler: SparkContext installs one that cancels all its jobs.

    An interrupted notebook cell would cancel all background stages with it. Only the main thread may set handlers, and
    only there SparkContext does. Meanwhile an interrupt waits: Py4J would print pages about it, and leave half a
    context behind. A second one does not wait.
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
        """Defer the first interrupt to the end of the `with`, unless interrupts are ignored anyway."""
        if self._keeps:
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._handler is signal.SIG_IGN else self._on_interrupt)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
