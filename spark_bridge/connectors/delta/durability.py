"""Makes commits to a local table durable: delta-rs syncs neither the files of its log nor those that a merge writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flykka.actors.checkpoint_storage.file_digests import is_local, sync_files
from flykka.spark_bridge.connectors.delta.log import plain
from flykka.spark_bridge.connectors.delta.staged_files import read_bytes
from flykka.spark_bridge.connectors.delta.table import LOG

if TYPE_CHECKING:
    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction


def sync_commits(location: TableLocation, transaction: Transaction, versions: Iterable[int]) -> None:
    """Make commits durable with the files that they add, up to that of the transaction, or the first that is missing.

    Raises `OSError`.
    """
    if not transaction.fsync or not is_local(location.path):
        return
    data: list[str] = []
    log: list[str] = []
    for version in versions:
        try:
            lines = read_bytes(location.commit(version)).splitlines()
        except FileNotFoundError:
            break
        entries = [json.loads(line) for line in lines if line.strip()]
        data += [f"{location.path}/{plain(entry['add']['path'])}" for entry in entries if "add" in entry]
        log += [location.commit(version), f"{location.path}/{LOG}/{version:020d}.checkpoint.parquet"]
        if any(_is_of(entry, transaction) for entry in entries):
            break
    sync_files(data)
    transaction.sync_names({location.path, *(path.rpartition("/")[0] for path in data)})
    sync_files([*log, f"{location.path}/{LOG}/_last_checkpoint"])
    transaction.sync_names([f"{location.path}/{LOG}"])


def _is_of(entry: dict[str, Any], transaction: Transaction) -> bool:
    noted = entry.get("txn")
    return noted is not None and noted["appId"] == transaction.writer and noted["version"] >= transaction.checkpoint_id
