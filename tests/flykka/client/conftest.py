"""Fixtures for tests of clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flykka.client.client_cluster import ClientCluster


@pytest.fixture
def cluster() -> Iterator[ClientCluster]:
    made = ClientCluster()
    yield made
    made.system.terminate()
    made.system.run_until_idle()
