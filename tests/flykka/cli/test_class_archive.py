"""The classes that Spark loads are archived once. A JVM that does not match the archive starts without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.spark_bridge.session.cache_folder import FOLDER_VARIABLE
from flykka.spark_bridge.session.class_archive import class_archive, reading_options

MAPPED = """
from pathlib import Path
from pyspark import SparkContext
from flykka.spark_bridge.session.class_archive import class_archive
from flykka.spark_bridge.session.session import spark_session
session = spark_session("local[1]")
print(str(class_archive()) in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
session.stop()
"""


def start_session(**environment: str) -> tuple[str, str]:
    """Start Spark in a process, and return whether its JVM has mapped the archive, and its stderr."""
    ran = subprocess.run(
        [sys.executable, "-c", MAPPED], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return ran.stdout.strip(), ran.stderr


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java with which this process would start Spark."""
    home = tmp_path_factory.mktemp("java")
    (home / "bin").mkdir()
    (home / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_a_jvm_uses_the_archive_if_it_exists(cache: Path, java: Path) -> None:
    archive = class_archive()
    assert archive is not None
    assert archive.parent == cache
    without = reading_options()

    archive.touch()

    assert without == ""
    assert f"-XX:SharedArchiveFile={archive}" in reading_options()


def test_each_java_version_has_its_own_archive(cache: Path, java: Path) -> None:
    before = class_archive()

    (java / "bin" / "java").write_text("newer")

    assert class_archive() != before


def test_without_java_no_archive_is_recorded(
    cache: Path, java: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java / "away"))

    code = main(["class-archive"])

    assert (code, capsys.readouterr().err) == (1, "flykka class-archive: no Java in JAVA_HOME or on PATH\n")
    assert list(cache.iterdir()) == []


@pytest.mark.slow
def test_output_of_a_failed_recording_is_shown(cache: Path, java: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["class-archive"])

    error = capsys.readouterr().err
    assert code == 1
    assert error.startswith("flykka class-archive: recording the classes failed\n")
    assert str(java) in error
    assert list(cache.iterdir()) == []


# The script in tests/bad_input/test_processes.py starts in the same way, without any output.
@pytest.mark.spark
@pytest.mark.long
def test_a_session_starts_silently_with_a_mismatched_archive(cache: Path) -> None:
    archive = class_archive()
    assert archive is not None
    archive.write_bytes(b"no archive")

    assert start_session() == ("False", "")


@pytest.mark.spark
@pytest.mark.long
def test_the_next_session_maps_the_recorded_classes(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = main(["class-archive"]), main(["class-archive"])

    assert (first, second) == (0, 0)
    assert "recorded already" in capsys.readouterr().out
    assert [file.suffix for file in cache.iterdir()] == [".jsa"]
    assert start_session() == ("True", "")
