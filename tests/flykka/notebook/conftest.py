"""Fixtures for tests of notebooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flykka.notebook.kernel import Kernel


@pytest.fixture(scope="package")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all tests, so that its JVM is started only once."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as made:
        yield made
