"""Exit codes and final messages of apps that start no job."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.cli.main import main

# The first test waits until everything is imported.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("source", "code", "last_words"),
    [
        (
            "",
            1,
            "flykka: {app} created no job: an app gets an environment from"
            " StreamExecutionEnvironment.get_execution_environment(), defines operators in it and calls its execute()",
        ),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("def f(:", 1, "SyntaxError: invalid syntax"),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no input')", 1, "no input"),
        ("raise KeyboardInterrupt", 130, "flykka: interrupted"),
        (
            "from flykka import RestartStrategies\nRestartStrategies.fixed_delay_restart(delay='-1s')",
            1,
            "flykka: DurationError: ",
        ),
    ],
)
def test_an_app_without_a_job_is_reported(
    source: str, code: int, last_words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.py"
    path.write_text(source)

    ended = main(["run", str(path)])

    captured = capsys.readouterr()
    last = captured.err.splitlines()[-1:] or [""]
    assert (ended, captured.out) == (code, "")
    assert last[0].startswith(last_words.format(app=path))


def test_frames_of_flykka_are_printed_only_in_verbose_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.py"
    path.write_text("1 / 0")

    main(["run", str(path)])
    short = capsys.readouterr().err
    main(["run", str(path), "--verbose"])
    whole = capsys.readouterr().err

    assert "run_path" not in short
    assert "run_path" in whole
