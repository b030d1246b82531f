"""Commits the rows of a checkpoint of a writer once: the log notes its id beside them, as a `txn` of the writer.

delta-rs refuses a commit if a `txn` of the same writer has come since the table was opened, and puts others' appends
before it. What it cannot put in order, such as two commits that remove one file, is done again with the table as it is
then; a commit of the same checkpoint by another attempt is found there, and nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from flykka.spark_bridge.connectors.delta.durability import sync_commits
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction

_TRIES = 20
_RECENT = 100
"""Versions of which the last may not be durable yet."""


def commit_once(location: TableLocation, transaction: Transaction, commit: Callable[[DeltaTable | None], None]) -> None:
    """Call `commit` with the table, None if it is not there yet, unless the log has the checkpoint or a later one.

    Raises:
        SinkError: others commit to the table all the time, and what they do rules ours out.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    for _ in range(_TRIES):
        table = location.find()
        version = -1 if table is None else table.version()
        if is_noted(table, transaction):
            # The attempt that has committed it may have ended before it was durable.
            sync_commits(location, transaction, range(version, max(-1, version - _RECENT), -1))
            return
        try:
            commit(table)
            sync_commits(location, transaction, count(version + 1))
            return
        except DeltaError as refused:
            is_conflict = table is None or isinstance(refused, CommitFailedError)
            now = location.find()
            if not is_conflict or now is None or now.version() == version:
                # Nobody else is to blame, and the next time it would be refused too.
                raise
            last = refused
    raise SinkError(
        f"the rows of checkpoint {transaction.checkpoint_id} cannot be committed to {location.path}: {_TRIES} times"
        f" others were faster, at last with {last}"
    ) from last


def is_noted(table: DeltaTable | None, transaction: Transaction) -> bool:
    """True if the log has the checkpoint, or a later one of the writer."""
    noted = None if table is None else table.transaction_version(transaction.writer)
    return noted is not None and noted >= transaction.checkpoint_id


def noting(transaction: Transaction) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(transaction.writer, transaction.checkpoint_id)])
