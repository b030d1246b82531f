"""Splits of a Delta table: one file each, as the log names it in one version.

The content is what reading needs: `{"version": 3, "path": "day=1/part-0.parquet", "partition": {"day": "1"}}`, with the
number of `rows` and their `latest` event time in ms, null where the log does not tell them.
"""

from __future__ import annotations

import json
from urllib.parse import quote

from flykka.messages.tasks.source import SerializedSplit
from flykka.messages.wire.ids import SplitId
from flykka.spark_bridge.connectors.delta.log import AddedFile
from flykka.spark_bridge.program.source import SplitNumbers


def split_of_file(file: AddedFile, version: int) -> SerializedSplit:
    content = {
        "version": version,
        "path": file.path,
        "partition": dict(file.partition),
        "rows": file.rows,
        "latest": file.event_time_max,
    }
    return SerializedSplit(
        split_id=SplitId(f"{version}/{quote(file.path)}"),
        rows=file.rows or 0,
        content=json.dumps(content),
        size_bytes=file.size_bytes,
    )


def file_of_split(split: SerializedSplit) -> AddedFile:
    content = json.loads(split.content)
    return AddedFile(
        path=content["path"],
        partition=content["partition"],
        size_bytes=split.size_bytes or 0,
        rows=content["rows"],
        event_time_max=content["latest"],
    )


def numbers_in(split: SerializedSplit) -> SplitNumbers:
    """Return the numbers that the log tells of the rows of a split."""
    file = file_of_split(split)
    return SplitNumbers(rows=file.rows, event_time_max=file.event_time_max)
