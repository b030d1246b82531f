"""Tests that the end of Spark's JVM is explained by its exit status."""

from __future__ import annotations

import re
import subprocess
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from flykka.spark_bridge.session.gateway import end_of_jvm


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("exit 52", "it has run out of memory .see its last line on stderr.*: give it more .spark.driver.memory"),
        ("exit 1", "it has exited with status 1, and its last lines on stderr say why"),
        ("kill -KILL $$", "it was killed .SIGKILL., by the kernel if the memory of the machine was used up"),
        ("kill -SEGV $$", "it has crashed .signal 11., and hs_err_pid.*log says why"),
    ],
)
def test_the_exit_status_of_the_jvm_explains_its_end(monkeypatch: pytest.MonkeyPatch, ending: str, words: str) -> None:
    with subprocess.Popen(["/bin/sh", "-c", ending]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))

        explanation = end_of_jvm()

    assert re.match(words, explanation)


def test_all_possible_causes_of_an_unknown_exit_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)

    assert end_of_jvm().startswith("it was killed, has run out of memory (spark.driver.memory) or has crashed")
