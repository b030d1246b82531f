"""Text written to file descriptor 2, by any process, is logged line by line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flykka.cli.run.execution import diverted_stderr


def test_lines_of_this_process_and_of_its_children_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    with diverted_stderr(said.append):
        os.write(2, b"from here\nhalf ")
        os.write(2, b"a line\n")
        subprocess.run(["/bin/sh", "-c", "echo from a child >&2"], check=True)
        os.write(2, b"no end")

    assert said == ["from here", "half a line", "from a child", "no end"]
    assert capfd.readouterr().err == ""


def test_afterwards_stderr_is_what_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with diverted_stderr(said.append):
        pass

    print("a last word", file=sys.stderr)

    assert said == []
    assert capfd.readouterr().err == "a last word\n"


def test_what_is_no_text_is_said_as_well_as_can_be(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    with diverted_stderr(said.append):
        os.write(2, b"\xff\xfe\n")

    assert said == ["\ufffd\ufffd"]
