"""Rules of the packages that the import contracts in setup.cfg cannot express."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout.sources import PACKAGES, PRODUCT, ROOT, sources

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

VAGUE = {"common", "core", "helper", "helpers", "misc", "shared", "util", "utils"}


@pytest.mark.parametrize("package", PACKAGES)
def test_flykka_has_a_link_to_each_package(package: str) -> None:
    link = ROOT / "flykka" / package

    assert link.is_symlink()
    assert link.readlink() == Path("..") / package


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_without_the_flykka_prefix_is_refused(package: str) -> None:
    spec = importlib.util.spec_from_file_location(package, ROOT / package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None

    with pytest.raises(ImportError, match=f"import this package as flykka.{package}"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_packages_are_imported_by_their_full_names() -> None:
    wrong = [
        f"{source}:{line} {name}"
        for source in sources()
        for line, name in source.imports
        if name.startswith(".") or name.split(".")[0] in PACKAGES
    ]

    assert wrong == []


def test_no_package_imports_the_public_api() -> None:
    wrong = [
        f"{source}:{line} {name}"
        for source in sources()
        if source.package in PACKAGES
        for line, name in source.imports
        if name.split(".")[0] == "flykka"
        and not any(f"{name}.".startswith(f"flykka.{package}.") for package in PACKAGES)
    ]

    assert wrong == []


def test_only_the_spark_bridge_imports_py4j() -> None:
    spoken = [
        f"{source}:{line} {name}"
        for source in sources()
        if source.package != "spark_bridge"
        for line, name in source.imports
        if name.split(".")[0] == "py4j"
    ]

    assert spoken == []


def test_every_module_documents_its_purpose() -> None:
    silent = [str(source) for source in sources() if not source.text.lstrip().startswith(('"""', 'r"""'))]

    assert silent == []


def test_every_package_documents_its_contents_and_limits_in_three_lines() -> None:
    packages = [source for source in sources() if source.path.name == "__init__.py" and source.package in PRODUCT]
    docstrings = {str(source): (ast.get_docstring(source.tree) or "").splitlines() for source in packages}

    assert [name for name, lines in docstrings.items() if len(lines) != 3 or "Not here: " not in lines[2]] == []


def test_every_module_has_a_descriptive_name() -> None:
    vague = [str(source) for source in sources() if not VAGUE.isdisjoint(source.path.with_suffix("").parts)]

    assert vague == []


IMPORT_WITHOUT = """
import importlib, pkgutil, sys
for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + ".") if {deep} else ():
        importlib.import_module(module.name)
print(sorted({libraries!r} & set(sys.modules)))
"""


COMMANDS_ON_TRACES = (
    "debug",
    "replay",
    "shrink",
    "simulate",
    "trace.check",
    "trace.diagram",
    "trace.diff",
    "trace.show",
    "trace.stats",
    "trace.story",
    "whatif",
    "why",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packages", "deep", "libraries"),
    [
        (["flykka"], False, {"pyspark", "py4j"}),
        (["flykka.messages", "flykka.runtime", "flykka.actors"], True, {"pyspark", "py4j"}),
        (["flykka.replay", "flykka.simulation", "flykka.monitors", "flykka.traces"], True, {"pyspark", "py4j"}),
        (["flykka.spark_bridge.functions"], True, {"numpy", "pandas", "pyarrow", "pyspark", "py4j"}),
        ([f"flykka.cli.{name}" for name in COMMANDS_ON_TRACES], False, {"pyspark", "py4j"}),
        (["flykka.messages"], True, {"pyspark", "py4j", "pykka"}),
    ],
)
def test_modules_that_need_no_spark_are_imported_without_it(
    packages: list[str], deep: bool, libraries: set[str]
) -> None:
    script = IMPORT_WITHOUT.format(packages=packages, deep=deep, libraries=libraries)

    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, "[]\n", "")
