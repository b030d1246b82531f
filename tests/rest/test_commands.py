"""Commands from another terminal: what they print, and what they say where it is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flykka.cli.main import main
from tests.rest.conftest import JOB, Served


def said(capsys: pytest.CaptureFixture[str], served: Served, *words: str) -> tuple[int, str, str]:
    """The exit code, and what was printed to stdout and stderr."""
    code = main([*words, "--address", served.server.address])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_jobs_are_listed(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    code, out, _ = said(capsys, served, "list")

    assert code == 0
    assert out.endswith(f"  {JOB}  a <job> (RUNNING)\n")


def test_a_job_is_found_by_its_name_by_the_begin_of_its_id_or_because_it_is_the_only_one(
    capsys: pytest.CaptureFixture[str], served: Served
) -> None:
    for named in (("a <job>",), (JOB[:5],), ()):
        code, out, _ = said(capsys, served, "why", *named)
        assert code == 0
        assert "a <job>" in out

    code, _, err = said(capsys, served, "cancel", "other")
    assert (code, err) == (1, f"flykka cancel: there is no job 'other' at {served.server.address}\n")


def test_a_job_is_cancelled(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    assert said(capsys, served, "cancel")[:2] == (0, f"job 'a <job>' ({JOB}) is being cancelled\n")


def test_what_is_refused_is_told(capsys: pytest.CaptureFixture[str], served: Served, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "flykka stop: No savepoint directory configured" in said(capsys, served, "stop")[2]
    code, _, err = said(capsys, served, "savepoint", "take", "-p", str(tmp_path / "file"))
    assert code == 1
    assert err.startswith(f"flykka savepoint take: the savepoint directory '{tmp_path}/file' cannot be written")


def test_a_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["list", "--address", address]) == 1
    assert f"flykka list: no flykka answers at http://{address}: " in capsys.readouterr().err
    assert main(["list", "-m", address, "--token-file", str(tmp_path / "none")]) == 1
    assert "cannot be asked: " in capsys.readouterr().err


def test_the_address_may_be_in_the_environment(
    capsys: pytest.CaptureFixture[str], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["list"])
    monkeypatch.setenv("FLYKKA_ADDRESS", served.server.address)

    assert main(["list"]) == 0
    assert JOB in capsys.readouterr().out
