"""Tests the complete terminal output of an app with an error, and the files and processes that the app leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from flykka.spark_bridge.session.cache_folder import FOLDER_VARIABLE
from flykka.spark_bridge.session.class_archive import class_archive
from tests.layout.sources import ROOT

pytestmark = pytest.mark.slow

WITHOUT_SPARK = {
    "no such app": (["nowhere.py"], 2, "flykka run: error: there is no file nowhere.py"),
    "an option that is none": (
        ["app.py", "--paralelism", "2"],
        2,
        "flykka run: error: unknown option --paralelism (did you mean --parallelism?); options for the app itself go"
        " after --",
    ),
    "a negative length of time": (
        ["app.py", "--checkpoint-interval", "-10s"],
        2,
        "flykka run: error: argument --checkpoint-interval: the length of time '-10s' is negative",
    ),
    "an app without a job": (
        ["app.py"],
        1,
        "flykka: app.py created no job: an app gets an environment from"
        " StreamExecutionEnvironment.get_execution_environment(), defines operators in it and calls its execute()",
    ),
    "an app that exits": (["app.py", "--", "7"], 7, ""),
    "an app that raises": (["app.py", "--", "seven"], 1, "ValueError: invalid literal for int() with base 10: 'seven'"),
}
FAILS_IN_A_WORKER = """\
import sys
from flykka import FileSink, FileSource, StreamExecutionEnvironment

def priced(frames):
    for frame in frames:
        raise ValueError("too many")

with StreamExecutionEnvironment.get_execution_environment("local[1]") as env:
    source = FileSource.csv(f"{sys.argv[1]}/numbers.csv", schema="id int")
    numbers = env.from_source(source, uid="numbers").map_in_pandas(priced, "id int").uid("priced")
    numbers.sink_to(FileSink.csv(f"{sys.argv[1]}/out")).uid("out")
    env.execute("prices")
"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in ("an app without a job", "an app that exits") else ())
        for name in WITHOUT_SPARK
    ],
)
def test_the_last_line_states_the_error_and_the_exit_code_is_nonzero(tmp_path: Path, name: str) -> None:
    words, code, last = WITHOUT_SPARK[name]
    (tmp_path / "app.py").write_text("import sys\nsys.exit(int(sys.argv[1]) if sys.argv[1:] else None)\n")
    if name == "an app without a job":
        (tmp_path / "app.py").write_text("print('hello')\n")

    ended = run_python(tmp_path, "-m", "flykka", "run", *words)

    assert ended.returncode == code
    assert ended.stderr.splitlines()[-1:] == ([last] if last else [])


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize("fits", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_scripts_error_is_the_only_output_and_no_process_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    if not fits:
        # The JVM prints nothing if its archive of classes does not match.
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
        archive = class_archive()
        assert archive is not None
        archive.write_bytes(b"no archive")
    (tmp_path / "numbers.csv").write_text("1\n2\n")
    (tmp_path / "app.py").write_text(FAILS_IN_A_WORKER)

    ended = run_python(tmp_path, "-X", "dev", "app.py", str(tmp_path))

    lines = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, lines[0]) == (1, "", "Traceback (most recent call last):")
    frames = [line for line in lines[1:-6] if line.startswith("  File")]
    assert all("flykka" in line or "app.py" in line for line in frames), ended.stderr
    assert lines[-6:-1] == [
        f"flykka.errors.JobExecutionError: job 'prices' failed: ValueError: operator 'priced' ({tmp_path}/app.py:10):"
        " too many",
        f'  File "{tmp_path}/app.py", line 10, in priced',
        '    numbers = env.from_source(source, uid="numbers").map_in_pandas(priced, "id int").uid("priced")',
        f'  File "{tmp_path}/app.py", line 6, in priced',
        '    raise ValueError("too many")',
    ]
    assert lines[-1].startswith("flight record: ")
    assert list((tmp_path / "out").iterdir()) == []


def run_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python, and check that no process remains. Remaining processes are found by the environment that they
    inherit.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    command: Sequence[str] = (sys.executable, *words)
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True) as process:
        out, err = process.communicate(timeout=120)
    left = [other for other in psutil.process_iter() if _temporary_files(other) == str(folder)]
    _, alive = psutil.wait_procs(left, timeout=20)
    assert alive == []
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _temporary_files(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("TMPDIR")
    except psutil.Error:
        return None
