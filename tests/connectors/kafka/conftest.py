"""A broker for the tests of this folder; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from benchmarks.connectors.broker import Broker, running_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka") / "data") as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"
