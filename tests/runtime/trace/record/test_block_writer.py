"""A recording's file is ended only once, even if more is written afterwards."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from flykka.runtime.trace.record.block_writer import BlockWriter


def test_a_chunk_written_while_the_recording_ends_adds_no_second_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.trace"
    writer = BlockWriter(path, max_bytes=1_000)
    writer.open("run", seed=0)
    writer.put(1, Random(0).randbytes(2_000), {})
    writer.write_waiting()
    ended = path.read_bytes()

    writer.put(2, bytes(10), {})
    writer.close()

    assert path.read_bytes() == ended
    assert caplog.text.count("ends at turn") == 1
