"""The names that `flykka` exports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flykka


def test_every_public_name_resolves_to_an_object_of_that_name() -> None:
    for name in flykka.__all__:
        assert getattr(flykka, name).__name__ == name


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(Path(flykka.__file__).with_name("public_names.py").read_text(encoding="utf-8"))
    imports = [statement for statement in tree.body if isinstance(statement, ast.ImportFrom)]

    assert {alias.asname for statement in imports for alias in statement.names} == set(flykka.__all__)


def test_a_missing_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'flykka' has no attribute 'Savepoint'"):
        flykka.Savepoint  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["flykka", "flykka.client.job_client", "flykka.cluster.local_cluster", "flykka.console"]
)
def test_names_that_need_no_session_import_no_spark(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
