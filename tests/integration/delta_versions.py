"""Delta tables at each of their versions, by the checkpoint that has committed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Row = tuple[Any, ...]


def versions(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[Row]]]:
    """Yield, for each version that a checkpoint has committed, this checkpoint and the sorted rows of the table."""
    for version in range(DeltaTable(str(path)).version() + 1):
        log = (path / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
        actions = [json.loads(line) for line in log.splitlines()]
        checkpoints = [action["txn"]["version"] for action in actions if "txn" in action]
        rows = DeltaTable(str(path), version=version).to_pyarrow_dataset().to_table(list(columns)).to_pylist()
        for checkpoint_id in checkpoints:
            yield checkpoint_id, sorted(tuple(row[name] for name in columns) for row in rows)
