"""`scripts/java.sh`: its choice of Java, its installation, and its error if there is no Java."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.layout.sources import ROOT

SCRIPT = ROOT / "scripts" / "java.sh"


@dataclass(frozen=True)
class Machine:
    """A machine without programs except those put on its PATH."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / "bin"

    def program(self, name: str, script: str) -> None:
        self._write(self.path / name, script)

    def java(self, home: str, version: int | str) -> Path:
        place = self.root / home
        settings = f"    java.home = {place}\n    java.specification.version = {version}"
        self._write(place / "bin" / "java", f"echo 'Picked up an option'; echo '{settings}' >&2")
        return place

    def on_path(self, home: Path) -> None:
        (self.path / "java").symlink_to(home / "bin" / "java")

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), **environment}
        return subprocess.run(["/bin/sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)

    @staticmethod
    def _write(path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.path.mkdir()
    for tool in ("sed", "ln"):
        found = shutil.which(tool)
        assert found is not None
        (machine.path / tool).symlink_to(os.path.realpath(found))
    machine.program("id", "echo 1000")
    return machine


def test_the_java_in_java_home_takes_precedence(machine: Machine) -> None:
    machine.on_path(machine.java("jdk-17", 17))
    named = machine.java("jdk-21", 21)

    run = machine.run(JAVA_HOME=str(named))

    assert (run.returncode, run.stdout, run.stderr) == (0, f"{named}\n", "")


@pytest.mark.parametrize("java_home", ["", "/nowhere", "old"])
def test_the_java_on_path_is_used_if_java_home_is_unsuitable(machine: Machine, java_home: str) -> None:
    machine.java("old", 11)
    on_path = machine.java("jdk-17", 17)
    machine.on_path(on_path)

    run = machine.run(JAVA_HOME=str(machine.root / java_home) if java_home else "")

    assert (run.returncode, run.stdout, run.stderr) == (0, f"{on_path}\n", "")


@pytest.mark.parametrize("version", ["1.8", 11, 16])
def test_an_old_java_without_an_installer_is_reported_on_one_line(machine: Machine, version: int | str) -> None:
    machine.on_path(machine.java("old", version))

    run = machine.run()

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("Spark needs Java 17 or newer: install it")
    assert run.stderr.count("\n") == 1


def test_nothing_is_installed_by_apt_without_root(machine: Machine) -> None:
    machine.program("apt-get", "echo apt-get was called; exit 1")

    run = machine.run()

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1


def test_apt_with_root_installs_a_missing_java_after_an_update(machine: Machine) -> None:
    home = machine.java("jdk-17", 17)
    log = machine.root / "log"
    machine.program("id", "echo 0")
    machine.program(
        "apt-get",
        f'echo "$DEBIAN_FRONTEND: $*" >> {log}; echo Reading lists; '
        f'if [ "$1" = install ]; then ln -s {home}/bin/java {machine.path}/java; fi',
    )

    run = machine.run()

    assert (run.returncode, run.stdout) == (0, f"{home}\n")
    assert log.read_text().splitlines() == [
        "noninteractive: update -qq",
        "noninteractive: install -qq -y --no-install-recommends openjdk-17-jre-headless",
    ]


def test_a_failed_installation_is_reported_on_one_line(machine: Machine) -> None:
    machine.program("id", "echo 0")
    machine.program("apt-get", "echo E: no network >&2; exit 100")

    run = machine.run()

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines()[-1].startswith("Spark needs Java 17 or newer")
