"""Tests that the requirements of a Spark session are checked before it starts, and that missing requirements are
reported with a remedy.
"""

from __future__ import annotations

import re
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session.preconditions import (
    NEEDED_FILES,
    check_preconditions,
    check_version,
)
from flykka.spark_bridge.session.session import without_speculation
from tests.layout.sources import ROOT


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine on which no server listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_an_error_names_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(SessionError, match=rf"no bin/java in JAVA_HOME, which is {tmp_path}: set it to") as refused:
        check_preconditions("local[1]", starts_jvm=True)
    assert "\n" not in str(refused.value)


def test_a_machine_without_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SessionError, match=r"there is no Java: install one of version 17 or newer"):
        check_preconditions("local[1]", starts_jvm=True)


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("most", "is_refused"), [(NEEDED_FILES - 1, True), (4 * NEEDED_FILES, False)])
def test_too_few_open_files_are_refused_or_raised_if_allowed(
    monkeypatch: pytest.MonkeyPatch, most: int, is_refused: bool
) -> None:
    limits = [(64, most)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))

    if is_refused:
        with pytest.raises(SessionError, match=rf"may open {most} files, but needs {NEEDED_FILES}: .*ulimit -n"):
            check_preconditions("local[1]", starts_jvm=True)
    else:
        check_preconditions("local[1]", starts_jvm=True)
        assert limits[-1] == (NEEDED_FILES, most)


def test_an_error_names_an_unreachable_master(closed_port: int) -> None:
    master = f"spark://127.0.0.1:{closed_port}"

    with pytest.raises(SessionError, match=rf"no master answers there \(127.0.0.1:{closed_port}: Connection refused"):
        check_preconditions(master, starts_jvm=False)


def test_one_reachable_master_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        check_preconditions(f"spark://127.0.0.1:{closed_port},127.0.0.1:{port}", starts_jvm=False)


def session_at(master: str, **settings: str) -> Any:
    return SimpleNamespace(
        sparkContext=SimpleNamespace(master=master), conf={f"spark.{k}": settings[k] for k in settings}
    )


def test_speculation_is_refused_on_clusters() -> None:
    for usable in (
        session_at("yarn"),
        session_at("yarn", speculation="false"),
        session_at("local[2]", speculation="true"),
    ):
        assert without_speculation(usable) is usable

    with pytest.raises(SessionError, match=r"spark\.speculation is true at yarn: .* set it to false"):
        without_speculation(session_at("yarn", speculation="TRUE"))


@pytest.mark.parametrize("installed", ["3.5.7", "4.2.1", "4.4.0", "4.4.0.dev1", "5.0.0"])
def test_an_unsupported_pyspark_version_is_refused(installed: str) -> None:
    with pytest.raises(
        SessionError, match=f"PySpark {installed} is installed, .* pip install 'pyspark>=4.3,<4.4'"
    ) as no:
        check_version(installed)
    (requirement,) = re.findall("'(pyspark.*)'", str(no.value))

    assert requirement.replace(">", " >") in (ROOT / "setup.cfg").read_text()


def test_every_patch_version_of_the_supported_pyspark_is_accepted() -> None:
    for installed in ("4.3.0", "4.3.12", "4.3.1.dev0"):
        check_version(installed)
