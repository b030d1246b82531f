"""The import contracts of setup.cfg, checked in every run of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout.sources import ROOT

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_the_import_contracts_are_kept() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")

    # The cache would still report modules as missing that did not exist when their importer was last read.
    run = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
