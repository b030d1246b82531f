"""The import contracts of setup.cfg, held in every run of the tests and so wherever these run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout.sources import ROOT

# It reads every file of the project, which `make quick` leaves to `make check`.
pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_the_import_contracts_are_kept() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")

    # Its cache would remember as missing what was not there when its importer was last read.
    run = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
