"""A sink writer for tests, and helpers that interfere between the writer and its database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from pyspark.sql import DataFrame

from flykka.connectors import SinkWriter
from flykka.messages.wire.message import Value
from tests.spark_bridge.connectors.postgres.server import Database

DEADLINE_S = 30.0


@dataclass
class Writing:
    writer: SinkWriter[DataFrame]
    checkpoint: int = 0
    prepared: Sequence[Value] = field(default_factory=tuple)

    def prepare(self, *batches: DataFrame) -> None:
        self.checkpoint += 1
        names = tuple(name for rows in batches for name in self.writer.stage(rows).names)
        self.prepared = self.writer.prepare_commit(self.checkpoint, names)

    def publish(self, *batches: DataFrame) -> None:
        self.prepare(*batches)
        self.writer.commit(self.checkpoint)


def process_waiting_in(database: Database, what: str) -> int:
    """Return the server process that waits for a lock in a statement with this beginning."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        processes = database.rows(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE %s",
            (f"{what}%",),
        )
        if processes:
            return int(processes[0][0])
        time.sleep(0.01)
    raise AssertionError(f"nothing waits in {what}")


def in_background(call: Callable[[], object]) -> Future[object]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return future


@contextmanager
def expect_refusal(why: str) -> Iterator[None]:
    """Expect an error whose text, or whose cause's text, matches."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which it is depends on the thread that sees it
        yield
    texts: list[str] = []
    error: BaseException | None = raised.value
    while error is not None:
        texts.append(str(error))
        error = error.__cause__
    assert re.search(why, "\n".join(texts)), texts
