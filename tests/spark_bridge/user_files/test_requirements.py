"""Tests that requirements are installed from a folder of packages, and that unavailable requirements are reported by
name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.spark_bridge.errors import UserFileError
from flykka.spark_bridge.user_files.registered_files import install
from tests.spark_bridge.user_files.wheels import make_wheel

pytestmark = pytest.mark.slow
CALL = "set_python_requirements('needs.txt') (app.py:3)"


def required(folder: Path, *requirements: str) -> Path:
    file = folder / "needs.txt"
    file.write_text("\n".join(requirements))
    return file


# tests/integration/test_user_files.py also covers those of the job.
@pytest.mark.long
def test_packages_of_a_folder_are_installed_offline(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tides", "1.0", "HIGH = 2\n")

    install(required(tmp_path, "tides==1.0"), tmp_path / "wheels", tmp_path / "installed", CALL)

    assert (tmp_path / "installed" / "tides" / "__init__.py").read_text() == "HIGH = 2\n"


def test_an_error_names_the_uninstallable_requirement_and_its_call(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tides", "1.0", "")
    needs = required(tmp_path, "tides==1.0", "moons>=3")

    with pytest.raises(UserFileError) as refused:
        install(needs, tmp_path / "wheels", tmp_path / "installed", CALL)

    assert str(refused.value).startswith(f"{CALL}: {needs} cannot be installed, for the requirement moons>=3: ")


def test_an_invalid_requirement_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()

    with pytest.raises(UserFileError, match=r"cannot be installed.*tides=1=2"):
        install(required(tmp_path, "tides=1=2"), tmp_path / "wheels", tmp_path / "installed", CALL)


def test_an_empty_requirements_file_yields_an_empty_folder(tmp_path: Path) -> None:
    install(required(tmp_path, "# none yet"), None, tmp_path / "installed", CALL)

    assert list((tmp_path / "installed").iterdir()) == []
