"""The names that `flykka.runtime` exports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flykka.runtime


def test_every_public_name_resolves_to_an_object_of_that_name() -> None:
    for name in flykka.runtime.__all__:
        assert getattr(flykka.runtime, name).__name__ == name


def test_type_checkers_and_the_interpreter_see_the_same_public_names() -> None:
    tree = ast.parse(Path(flykka.runtime.__file__).with_name("public_names.py").read_text(encoding="utf-8"))
    imports = [statement for statement in tree.body if isinstance(statement, ast.ImportFrom)]

    assert {alias.asname for statement in imports for alias in statement.names} == set(flykka.runtime.__all__)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'flykka\.runtime' has no attribute 'ThreadingActor'"):
        flykka.runtime.ThreadingActor  # noqa: B018


def test_importing_the_kernel_loads_neither_spark_nor_jobs_nor_rich() -> None:
    program = "import sys; from flykka.runtime import *; print({name.split('.')[0] for name in sys.modules} & foreign)"
    foreign = "foreign = {'pyspark', 'pyarrow', 'pandas', 'rich', 'pytest'};"

    run = subprocess.run([sys.executable, "-c", foreign + program], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, "set()\n", "")
