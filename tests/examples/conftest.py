"""What the tests of the demo share."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from tests.layout.sources import ROOT


@pytest.fixture(scope="session")
def demo() -> ModuleType:
    """The example, which is a program and no module of the package."""
    spec = importlib.util.spec_from_file_location("flights_example", ROOT / "examples" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
