"""A real ZooKeeper server from the jars in PySpark, which is reachable only from this machine and is killed by its
process id.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from time import monotonic

from tests.flykka.cluster.high_availability.contenders import PATIENCE

TICK_MS = 200
"""The tick of the server in milliseconds; the shortest session timeout is two ticks."""

_JARS = ("zookeeper-*.jar", "slf4j-api-*.jar", "metrics-core-*.jar", "netty-*.jar", "snappy-java-*.jar")


class ZooKeeperServer:
    """One server with its data in `folder`, which can be stopped, resumed, killed and started again."""

    def __init__(self, folder: Path, users: Mapping[str, str] | None = None) -> None:
        """`users` maps the names to the passwords of the users who may log in by SASL."""
        self._folder = folder
        self._options: tuple[str, ...] = ()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if users is not None:
            logins = " ".join(f'user_{name}="{password}"' for name, password in users.items())
            module = "org.apache.zookeeper.server.auth.DigestLoginModule"
            (folder / "jaas.conf").write_text(f"Server {{ {module} required {logins}; }};")
            provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            self._options = (
                f"-Djava.security.auth.login.config={folder / 'jaas.conf'}",
                f"-Dzookeeper.authProvider.sasl={provider}",
            )
        (folder / "zoo.cfg").write_text(
            f"tickTime={TICK_MS}\ndataDir={folder / 'data'}\nclientPort={self._port}\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "maxSessionTimeout=120000\n"
        )

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _java(),
                    *("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"),
                    *self._options,
                    *("-cp", os.pathsep.join(_class_path())),
                    "org.apache.zookeeper.server.ZooKeeperServerMain",
                    str(self._folder / "zoo.cfg"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert monotonic() < end, (self._folder / "log").read_text()
            Event().wait(0.02)

    def kill(self) -> None:
        """Kill the server, as a power failure does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1.0) as connection:
                connection.sendall(b"srvr")
                return connection.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    assert found is not None, "there is no Java"
    return found


def _class_path() -> list[str]:
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    return [str(jar) for pattern in _JARS for jar in sorted(jars.glob(pattern))]
