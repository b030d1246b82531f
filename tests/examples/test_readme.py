"""Tests that the README is short, and that its code runs."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flykka.cli.main import main
from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_of_the_readme_are_valid_python(snippet: str) -> None:
    compile(snippet, "README.md", "exec")


def test_the_readme_has_fewer_than_150_lines() -> None:
    assert len(README.splitlines()) < 150


def test_the_actor_system_of_the_readme_replies(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (snippet for snippet in SNIPPETS if "ActorSystem(" in snippet)

    exec(program, {})

    assert capsys.readouterr().out == "Hello, Ada\n"


@pytest.mark.slow
def test_readme_commands_run_on_the_trace_in_the_tree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (trace,) = re.findall(r"^T=(\S+)", README, re.M)
    commands = re.findall(r"^flykka (.*\$T.*?)(?: *#.*)?$", README, re.M)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.stdin", io.StringIO("quit\n"))

    assert len(commands) == 4
    for command in commands:
        assert main(shlex.split(command.replace("$T", trace))) == 0, command
        assert capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_the_readmes_job_runs_unchanged(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    lines = [
        '{"time": "2026-01-01T00:00:10Z", "service": "shop", "status": 500}',
        '{"time": "2026-01-01T00:00:50Z", "service": "shop", "status": 503}',
        '{"time": "2026-01-01T00:01:10Z", "service": "shop", "status": 404}',
        '{"time": "2026-01-01T00:01:20Z", "service": "mail", "status": 502}',
    ]
    (tmp_path / "logs" / "first.json").write_text("\n".join(lines))
    (tmp_path / "logs" / "_SUCCESS").touch()
    monkeypatch.chdir(tmp_path)
    (job,) = (snippet for snippet in SNIPPETS if "env.execute(" in snippet)

    exec(job, {})

    rows = spark.read.parquet(str(tmp_path / "errors")).select("service", "errors").collect()
    assert sorted(map(tuple, rows)) == [("mail", 1), ("shop", 2)]
