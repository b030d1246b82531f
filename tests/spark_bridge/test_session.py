"""Tests the session: which settings it gets, and which settings are not changed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka import StreamExecutionEnvironment
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session.session import engine_session, spark_session

pytestmark = pytest.mark.spark

FRESH = """
import os, signal
from pyspark import SparkContext
before = signal.getsignal(signal.SIGINT)
from flykka.spark_bridge.session.session import spark_session
session = spark_session("local[1]", config={"spark.driver.extraJavaOptions": "-Dours=kept"})
assert signal.getsignal(signal.SIGINT) is before, "Spark's handler is in place"
assert session.conf.get("spark.sql.session.timeZone") == "UTC"
assert session.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
assert session.sparkContext.uiWebUrl is None
assert session._jvm.System.getProperty("ours") == "kept"
assert os.environ["PYSPARK_PYTHON"] == os.sys.executable
jvm = SparkContext._gateway.proc.pid
assert os.getsid(jvm) != os.getsid(0), "the JVM is in this session"
os.kill(jvm, signal.SIGTERM)
assert session.range(3).count() == 3
session.stop()
print("as found")
"""

SOCKETS = """
from flykka.spark_bridge.session.session import spark_session
session = spark_session("local[1]")
rows = session.range(3).mapInArrow(lambda batches: batches, "id bigint").collect()
print(len(rows), session.sparkContext.getConf().get("spark.python.unix.domain.socket.enabled", "false"))
session.stop()
"""

STARTED = """
from flykka.spark_bridge.session.session import spark_session
session = spark_session("local[1]")
"""

REFUSED_AND_STARTED = """
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session.session import spark_session
try:
    spark_session("k8s://https://127.0.0.1:1")
except SessionError as refused:
    print(refused)
session = spark_session("local[1]")
print(session._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString())
session.stop()
"""

# Spark ignores a configuration without appenders.
FATAL_ONLY = """
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
"""


def run_in_new_process(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_an_existing_session_is_adopted_unchanged(spark: SparkSession) -> None:
    before = dict(spark.conf.getAll)

    adopted = spark_session("local[7]", config={"spark.sql.session.timeZone": "Asia/Tokyo"})
    engine = engine_session(adopted)

    assert adopted.sparkContext is spark.sparkContext
    assert engine.sparkContext is spark.sparkContext
    assert dict(spark.conf.getAll) == before
    assert engine.conf.get("spark.sql.adaptive.enabled") == "false"


def test_an_engine_session_sees_the_users_views_and_settings(spark: SparkSession) -> None:
    user = spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.range(3).createOrReplaceTempView("three")

    engine = engine_session(user)

    assert engine.table("three").count() == 3
    assert engine.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_an_engine_session_does_not_cache_file_status(spark: SparkSession) -> None:
    caches: Any = spark._jvm.org.apache.spark.sql.execution.datasources.FileStatusCache  # type: ignore[union-attr]

    of_the_user, of_the_engine = (
        caches.getOrCreate(session._jsparkSession).getClass().getSimpleName()
        for session in (spark, engine_session(spark))
    )

    assert of_the_user != "NoopCache$"
    assert of_the_engine == "NoopCache$"


def test_a_session_that_is_not_classic_is_refused() -> None:
    with pytest.raises(SessionError, match="classic Spark session"):
        engine_session(object())  # type: ignore[arg-type]


def test_speculative_execution_is_refused_by_an_environment(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"), conf={"spark.speculation": "true"})
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: there)

    with pytest.raises(SessionError, match=r"spark\.speculation is true at yarn"):
        StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.slow
def test_a_new_session_preserves_signals_and_java_options_and_starts_silently() -> None:
    """Ctrl-C does not reach Spark. Neither does a SIGTERM, because Spark's JVM is in its own process session."""
    ran = run_in_new_process(FRESH)

    assert ran.stdout.strip().endswith("as found"), ran.stderr
    assert ran.stderr == ""


@pytest.mark.slow
def test_workers_do_not_use_unix_sockets_if_their_paths_would_be_too_long(tmp_path: Path) -> None:
    folder = tmp_path / ("t" * 60)
    folder.mkdir()

    ran = run_in_new_process(SOCKETS, TMPDIR=str(folder))

    assert ran.stdout.split() == ["3", "false"], ran.stderr


@pytest.mark.slow
def test_a_failed_jvm_start_is_reported_on_one_line_with_the_reason(tmp_path: Path) -> None:
    ran = run_in_new_process(STARTED, PYSPARK_SUBMIT_ARGS="--driver-java-options -Xmx1g pyspark-shell")

    error = "flykka.spark_bridge.errors.SessionError: no Spark session at local[1]: Java has ended: Error: Not allowed"
    assert ran.stderr.strip().splitlines()[-1].startswith(error)
    assert "Usage: spark-submit" not in ran.stderr


@pytest.mark.slow
def test_yarn_requires_the_hadoop_configuration_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)

    ran = run_in_new_process(STARTED.replace("local[1]", "yarn"))

    assert "no Spark session at yarn: set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder of" in ran.stderr


@pytest.mark.slow
def test_a_jvm_error_shows_its_last_cause_and_the_users_logging_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / "log4j2.properties").write_text(FATAL_ONLY, encoding="utf-8")

    # Spark's Kubernetes client would retry for twenty seconds.
    ran = run_in_new_process(
        REFUSED_AND_STARTED, SPARK_CONF_DIR=str(tmp_path), KUBERNETES_REQUEST_RETRY_BACKOFFLIMIT="0"
    )

    *messages, level = ran.stdout.strip().splitlines()
    assert messages[0].startswith("no Spark session at k8s://https://127.0.0.1:1: "), ran.stderr
    assert messages[-1].endswith("Connection refused")
    assert level == "FATAL", ran.stderr


def test_an_interrupted_jvm_call_raises_without_logging(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    spark_session()

    interrupt_call(spark)

    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    assert spark.range(3).count() == 3


def test_an_interrupted_jvm_call_does_not_affect_other_threads(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_session()
    # If Py4J closes one connection, the JVM closes those of all threads.
    closed: list[object] = []
    monkeypatch.setattr(
        "py4j.clientserver.ClientServerConnection.shutdown_socket", lambda *arguments: closed.append(arguments)
    )
    jvm: Any = spark.sparkContext._jvm
    semaphore = jvm.java.util.concurrent.Semaphore(0)
    with ThreadPoolExecutor(1) as thread:
        acquired = thread.submit(semaphore.acquire)
        while not semaphore.hasQueuedThreads():
            assert not acquired.done()

        interrupt_call(spark)
        semaphore.release()

        assert acquired.result(timeout=60) is None
    assert closed == []


class InterruptedSocket:
    """Interrupts the first command that is sent."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._was_interrupted = False

    def sendall(self, data: bytes) -> None:
        if not self._was_interrupted:
            self._was_interrupted = True
            raise KeyboardInterrupt
        self._socket.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def interrupt_call(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    client._give_back_connection(connection := client._get_connection())
    connection.socket = InterruptedSocket(connection.socket)
    with pytest.raises(KeyboardInterrupt):
        spark.range(3)
