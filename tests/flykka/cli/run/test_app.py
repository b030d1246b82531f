"""An app runs as with `python`, and its errors look as its author expects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flykka.cli.run.app import App
from flykka.errors import ProgramError


def app_in_folder(folder: Path, source: str, *arguments: str) -> App:
    path = folder / "app.py"
    path.write_text(source)
    return App(str(path), arguments)


def app_error(made: App) -> BaseException:
    with pytest.raises(BaseException) as error:  # noqa: PT011 - whatever it is
        made.run()
    return error.value


def test_the_app_is_the_main_module_and_imports_its_neighbours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "neighbour_of_app.py").write_text("NAME = 'neighbour'")
    before = list(sys.argv), list(sys.path)

    app_in_folder(
        tmp_path,
        "import sys, neighbour_of_app\nprint(__name__, sys.argv[1:], neighbour_of_app.NAME)",
        "a",
        "--b",
    ).run()

    assert capsys.readouterr().out == "__main__ ['a', '--b'] neighbour\n"
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize("name", ["nowhere.py", ""])
def test_a_missing_app_file_is_reported_as_a_problem(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)

    assert path.rstrip("/") in (App(path).problem() or "")


def test_a_valid_script_is_accepted(tmp_path: Path) -> None:
    assert app_in_folder(tmp_path, "").problem() is None


def test_a_traceback_shows_only_the_frames_of_the_app(tmp_path: Path) -> None:
    app = app_in_folder(
        tmp_path,
        """\
def read(text):
    return int(text)

try:
    read("x")
except ValueError as wrong:
    raise RuntimeError("no configuration") from wrong
""",
    )

    assert app.explained(app_error(app)).splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{app.path}", line 5, in <module>',
        '    read("x")',
        f'  File "{app.path}", line 2, in read',
        "    return int(text)",
        "           ^^^^^^^^^",
        "ValueError: invalid literal for int() with base 10: 'x'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        f'  File "{app.path}", line 7, in <module>',
        '    raise RuntimeError("no configuration") from wrong',
        "RuntimeError: no configuration",
    ]


def test_an_error_of_flykka_is_printed_with_the_line_of_the_app(tmp_path: Path) -> None:
    source = "from flykka import WatermarkStrategy\n\nWatermarkStrategy.for_bounded_out_of_orderness('soon')\n"
    app = app_in_folder(tmp_path, source)

    assert app.explained(app_error(app)).splitlines() == [
        f"{app.path}:3: WatermarkStrategy.for_bounded_out_of_orderness('soon')",
        "flykka: DurationError: watermark delay 'soon' is not of the form '10s', '500ms', '5 min' or '1h'",
    ]


def test_an_error_outside_the_app_has_no_line() -> None:
    assert App("app.py").explained(ProgramError("not as written")) == "flykka: ProgramError: not as written"


def test_a_syntax_error_is_printed_with_its_position(tmp_path: Path) -> None:
    app = app_in_folder(tmp_path, "def f(:\n")

    place, line, _, error = app.explained(app_error(app)).splitlines()[-4:]

    assert (place, line) == (f'  File "{app.path}", line 1', "    def f(:")
    assert error == "SyntaxError: invalid syntax"


def test_verbose_mode_prints_the_complete_traceback(tmp_path: Path) -> None:
    app = app_in_folder(tmp_path, "1 / 0\n")

    assert "in run_path" in app.explained(app_error(app), whole=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('twice = F.udf(lambda n: 2 * n, "long")', "[SESSION_OR_CONTEXT_NOT_EXISTS]"),
        pytest.param('PRICE = F.col("price") * 2', "AssertionError", marks=pytest.mark.long),
    ],
)
def test_a_line_that_needs_a_missing_session_is_reported_with_advice(tmp_path: Path, line: str, error: str) -> None:
    # In a separate process, because other tests have a session.
    path = tmp_path / "app.py"
    path.write_text(f"from pyspark.sql import functions as F\n\n{line}\n")

    ran = subprocess.run(
        [sys.executable, "-m", "flykka", "run", str(path)], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 1
    assert f'File "{path}", line 3, in <module>\n    {line}\n' in ran.stderr
    assert error in ran.stderr
    assert ran.stderr.split("\nflykka: ")[1].startswith("there is no Spark session yet: get_execution_environment(...)")


def test_other_failed_assertions_are_printed_without_advice(tmp_path: Path) -> None:
    app = app_in_folder(tmp_path, "assert False, 'SparkContext._active_spark_context'")

    assert app.explained(app_error(app)).endswith("AssertionError: SparkContext._active_spark_context")
