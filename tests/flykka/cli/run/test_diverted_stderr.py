"""Text written to file descriptor 2, by any process, is logged line by line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flykka.cli.run.execution import diverted_stderr


def test_lines_of_this_process_and_its_children_are_logged(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    with diverted_stderr(said.append):
        os.write(2, b"from here\nhalf ")
        os.write(2, b"a line\n")
        subprocess.run(["/bin/sh", "-c", "echo from a child >&2"], check=True)
        os.write(2, b"no end")

    assert said == ["from here", "half a line", "from a child", "no end"]
    assert capfd.readouterr().err == ""


def test_stderr_is_restored_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with diverted_stderr(said.append):
        pass

    print("a last word", file=sys.stderr)

    assert said == []
    assert capfd.readouterr().err == "a last word\n"


def test_bytes_that_are_not_text_are_logged_with_replacements(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    with diverted_stderr(said.append):
        os.write(2, b"\xff\xfe\n")

    assert said == ["\ufffd\ufffd"]
