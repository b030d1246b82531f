"""What the tests of clients share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flykka.client.job_desk import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.system.terminate()
    made.system.run_until_idle()
