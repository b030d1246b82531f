"""Files that an environment registers for functions are validated at the call, and removed with the environment."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from flykka import DataStream, FunctionRuntimeContext, ProcessFunction, StreamExecutionEnvironment
from flykka.errors import ProgramError

pytestmark = pytest.mark.spark
Env = StreamExecutionEnvironment


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cities.csv").write_text("Rome")
    (tmp_path / "moons.py").write_text("COUNT = 1\n")
    return tmp_path


class Opening(ProcessFunction):
    """Reads its files in `open`, which is called when the operator is declared."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        Path("opened").write_text(
            Path(runtime_context.get_cached_file("cities")).read_text()
            + runtime_context.global_job_parameters["limit"]
            + str(importlib.import_module("moons").COUNT)
        )

    def process_element(self, row: object, ctx: object) -> None: ...


def stream_of_one_number(env: Env) -> DataStream:
    return env.from_dataframe(env.spark.range(1))


def test_a_function_sees_files_as_they_were_at_registration(env: Env, working_folder: Path) -> None:
    env.register_cached_file("cities.csv", "cities").add_python_file("moons.py")
    env.set_global_job_parameters({"limit": "7"})
    (working_folder / "cities.csv").write_text("changed")
    (working_folder / "moons.py").write_text("COUNT = 9\n")

    stream_of_one_number(env).process(Opening(), "id long")

    assert (working_folder / "opened").read_text() == "Rome71"


def test_the_next_environment_imports_a_newer_module_of_the_same_name(
    spark: SparkSession, working_folder: Path
) -> None:
    before = [*sys.path]
    for count in (1, 2):
        (working_folder / "moons.py").write_text(f"COUNT = {count}\n")
        with Env.get_execution_environment() as env:
            env.add_python_file("moons.py")
            assert count == importlib.import_module("moons").COUNT
            includes, environment = spark.sparkContext._python_includes, spark.sparkContext.environment
            assert any(name.endswith("-moons") for name in includes or ())
            assert "FLYKKA_PYTHON_PATH" in environment

    assert sys.path == before
    assert not any(name.endswith("-moons") for name in spark.sparkContext._python_includes or ())
    assert "FLYKKA_PYTHON_PATH" not in spark.sparkContext.environment


def test_zipped_packages_and_folders_are_accepted_as_python_files(env: Env, working_folder: Path) -> None:
    with ZipFile(working_folder / "zipped.zip", "w") as zipped:
        zipped.writestr("planets/__init__.py", "COUNT = 8\n")
    (working_folder / "lib").mkdir()
    (working_folder / "lib" / "suns.py").write_text("COUNT = 1\n")

    env.add_python_file("zipped.zip").add_python_file(working_folder / "lib")

    assert importlib.import_module("planets").COUNT == 8
    assert importlib.import_module("suns").COUNT == 1


@pytest.mark.parametrize(
    ("register", "refusal"),
    [
        (lambda env: env.register_cached_file("towns.csv", "towns"), r"there is no file or folder .*towns\.csv"),
        (lambda env: env.add_python_file("stars.py"), r"there is no file or folder .*stars\.py"),
        (lambda env: env.add_python_file("cities.csv"), r"is not a Python file: use a \.py file, a folder"),
        (lambda env: env.add_python_archive("cities.csv"), r"cities\.csv is not an archive that can be unpacked"),
        (lambda env: env.set_python_requirements("needs.txt"), r"there is no file or folder .*needs\.txt"),
    ],
)
def test_an_invalid_registration_is_refused_with_its_call_and_line(
    env: Env, register: Callable[[Env], Env], refusal: str
) -> None:
    with pytest.raises(ProgramError, match=rf"^\w+\('\w+\.\w+'.*\) \(.*test_user_files\.py:\d+\): .*{refusal}"):
        register(env)


def test_a_duplicate_name_is_refused_with_the_earlier_call(env: Env) -> None:
    env.register_cached_file("cities.csv", "cities")

    with pytest.raises(ProgramError, match=r"'cities' belongs to register_cached_file\('cities.csv', 'cities'\) \("):
        env.register_cached_file("moons.py", "cities")


def test_names_and_parameters_must_be_strings(env: Env) -> None:
    with pytest.raises(ProgramError, match="the name of a cached file must be a non-empty text, not ''"):
        env.register_cached_file("cities.csv", "")
    with pytest.raises(ProgramError, match=r"texts by name, not \{'limit': 7\}: write str\(value\)"):
        env.set_global_job_parameters({"limit": 7})  # type: ignore[dict-item]
