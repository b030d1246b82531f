"""Arguments of the command line, and the errors for invalid ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flykka.cli.main import _COMMANDS, main
from flykka.cli.run.command import continuing
from tests.layout.sources import ROOT


@pytest.fixture
def app(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(0)\n")
    return str(path)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "flykka: error: the following arguments are required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["run"], "flykka run: error: the following arguments are required: APP.py"),
        (["run", "nowhere.py"], "flykka run: error: there is no file nowhere.py"),
        (["run", "."], "flykka run: error: . is a folder: pass the Python file of the app"),
        (["trace", "show", "a", "b"], "unrecognized arguments: b"),
    ],
)
def test_missing_arguments_and_files_are_named(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refusal(arguments, capsys)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            ["--paralelism", "2"],
            "unknown option --paralelism (did you mean --parallelism?); options for the app itself go after --",
        ),
        (["--quite-different"], "unknown option --quite-different; options for the app itself go after --"),
        (["--parallelism", "0"], "argument --parallelism: '0' is not a whole number from 1"),
        (["--slots-per-task-manager", "-1"], "argument --slots-per-task-manager: '-1' is not a whole number from 1"),
        (["--task-managers", "two"], "argument --task-managers: 'two' is not a whole number from 1"),
        (["--checkpoint-interval", "soon"], "argument --checkpoint-interval: the length of time 'soon' is not of the"),
        (["--checkpoint-interval", "-5s"], "argument --checkpoint-interval: the length of time '-5s' is negative"),
        (["--checkpoint-interval", "0s"], "argument --checkpoint-interval: the length of time '0s' must be longer"),
        (["--retention", "all"], "argument --retention: 'all' is not one of "),
        (["--record"], "argument --record: expected one argument"),
    ],
)
def test_an_invalid_option_is_named_with_valid_ones(
    options: list[str], error: str, app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refusal(["run", app, *options], capsys)


@pytest.mark.slow
def test_unknown_options_are_passed_to_the_app(app: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        [
            "run",
            "--parallelism",
            "2",
            app,
            "in.csv",
            "--slots-per-task-manager",
            "3",
            "out",
            "--",
            "--parallelism",
            "--",
            "-v",
        ]
    )

    assert (code, capsys.readouterr().out) == (0, "['in.csv', 'out', '--parallelism', '--', '-v']\n")


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        ("run app.py --slots-per-task-manager 2", "flykka run app.py --slots-per-task-manager 2"),
        ("run app.py in -- --from-checkpoint x", "flykka run app.py in -- --from-checkpoint x"),
        ("run --from-checkpoint latest app.py", "flykka run app.py"),
        ("run app.py --from-checkpoint=/chk-1", "flykka run app.py"),
        ("run app.py --fresh --slots-per-task-manager 2", "flykka run app.py --slots-per-task-manager 2"),
        ("run --overwrite out app.py --overwrite=more in", "flykka run app.py in"),
    ],
)
def test_the_command_to_continue_omits_earlier_start_options(command_line: str, expected: str) -> None:
    assert continuing(command_line.split()) == expected.split()


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["trace", "--help"]])
def test_help_documents_the_exit_codes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(command)

    assert left.value.code == 0
    assert "exit codes:\n  0  " in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])

    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("flykka ")


WITHOUT_SPARK = """
import sys
from flykka.cli.main import main
try:
    main([sys.argv[1], "--help"])
except SystemExit:
    print(sorted({"pyspark", "py4j", "pandas"} & set(sys.modules)), file=sys.stderr)
"""


COMMANDS = """
import sys
from flykka.cli.main import main
try:
    main(["--help"])
except SystemExit:
    print(sorted(name for name in sys.modules if name.startswith("flykka.cli.")), file=sys.stderr)
"""


@pytest.mark.slow
def test_the_list_of_commands_imports_no_command() -> None:
    run = subprocess.run([sys.executable, "-c", COMMANDS], cwd=ROOT, capture_output=True, text=True, check=True)

    assert run.stderr == "['flykka.cli.arguments', 'flykka.cli.exit_codes', 'flykka.cli.main']\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", _COMMANDS)
def test_help_does_not_import_spark(command: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, command], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stderr == "[]\n"


@pytest.mark.parametrize(
    "restored",
    [[], ["--from-savepoint", "/before"], ["-s", "/before", "-n"], ["--from-checkpoint=latest"]],
)
def test_the_command_to_continue_names_an_unregistered_savepoint(restored: list[str]) -> None:
    command_line = ["run", "app.py", *restored, "--parallelism", "2", "--", "-s", "theirs"]

    words = continuing(command_line, "--from-savepoint", "/savepoints/savepoint-ab12cd-1")

    expected = "flykka run app.py --parallelism 2 --from-savepoint /savepoints/savepoint-ab12cd-1 -- -s theirs"
    assert words == expected.split()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from-checkpoint", "latest", "--from-savepoint", "/s"], "give --from-checkpoint or --from-savepoint, not"),
        (["--fresh", "--overwrite", "out"], "give --fresh or --overwrite, not both"),
        (["--from-savepoint", "/s", "--fresh"], "give --from-savepoint or --fresh, not both"),
        (["--allow-non-restored-state"], "--allow-non-restored-state needs a savepoint"),
        (["--ring", "500"], "--ring limits a recording"),
        (["--record", "run.trace", "--ring", "0"], "argument --ring"),
        (["--max-bytes", "500"], "--max-bytes limits a recording"),
        (["--record", "run.trace", "--ring", "5", "--max-bytes", "500"], "give --ring or --max-bytes, not both"),
    ],
)
def test_contradictory_options_are_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.py").write_text("")

    with pytest.raises(SystemExit) as left:
        main(["run", str(tmp_path / "app.py"), *options])

    assert left.value.code == 2
    assert said in capsys.readouterr().err
