"""Transfers between accounts: at every checkpoint all tables of a job show the balances after the same transfers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Condition

import numpy as np
import pandas as pd
import pytest

from flykka import FileSource, JobClient, RestartStrategies, StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten, StageResult
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from tests.integration.arrivals import END
from tests.integration.delta_versions import Row, versions
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

ACCOUNTS, BANKS, OPENING = 20, 3, 500
PATIENCE_SECONDS = 120

BALANCE = f"""
CREATE TEMPORARY VIEW balance AS
SELECT account, {OPENING} + sum(amount) AS amount
FROM (SELECT target AS account, amount FROM transfer UNION ALL SELECT source AS account, -amount FROM transfer)
GROUP BY account
"""
TABLES = {
    "balances": ("account BIGINT, amount BIGINT", "account", "SELECT account, amount FROM balance"),
    "totals": (
        "id INT, accounts BIGINT, amount BIGINT",
        "id",
        "SELECT 1 AS id, count(*) AS accounts, sum(amount) AS amount FROM balance",
    ),
    "neighbours": (
        "account BIGINT, neighbour BIGINT, amount BIGINT",
        "account",
        "SELECT a.account, b.account AS neighbour, a.amount + b.amount AS amount FROM balance a"
        " JOIN balance b ON b.account = a.account + 1",
    ),
    "newest": (
        "bank BIGINT, account BIGINT, amount BIGINT",
        "bank",
        f"SELECT account % {BANKS} AS bank, account, amount FROM balance ON CONFLICT DO DEDUPLICATE",
    ),
}
"""The columns and the key of each table, and its query."""


def write_transfers(folder: Path, files: int, rows: int) -> Iterator[None]:
    """Write seeded transfers, one file at a time."""
    chance = np.random.default_rng(43)
    for number in range(files):
        sources = chance.integers(0, ACCOUNTS, rows)
        targets = (sources + chance.integers(1, ACCOUNTS, rows)) % ACCOUNTS
        transfers = {"source": sources, "target": targets, "amount": chance.integers(1, 90, rows)}
        hidden = folder / f".{number:03}.parquet"
        pd.DataFrame(transfers).to_parquet(hidden)
        hidden.rename(folder / f"{number:03}.parquet")
        yield


def start_tables(env: StreamExecutionEnvironment, folder: Path, parallelism: int) -> JobClient:
    env.enable_checkpointing("100ms", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0)).set_parallelism(parallelism)
    source = FileSource.parquet(str(folder / "transfers"), schema="source bigint, target bigint, amount bigint")
    transfers = source.files_per_batch(1).monitor_continuously("50ms", until=END)
    env.create_temporary_view("transfer", env.from_source(transfers, name="transfers", uid="transfers"))
    env.execute_sql(BALANCE)
    together = env.create_statement_set()
    for table, (columns, key, query) in TABLES.items():
        env.execute_sql(
            f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) USING delta"
            f" OPTIONS (path '{folder / table}')"
        )
        together.add_insert_sql(f"INSERT INTO {table} {query}")
    return together.execute()


class Checkpoints:
    def __init__(self, client: JobClient) -> None:
        self._changed = Condition()
        self._number = 0
        client.add_listener(self._hear)

    def wait_for_next(self) -> None:
        """Wait for a checkpoint that begins after this call. The next checkpoint may have begun before, so the second
        one is awaited.
        """
        with self._changed:
            number = self._number + 2
            assert self._changed.wait_for(lambda: self._number >= number, timeout=PATIENCE_SECONDS)

    def _hear(self, message: Message) -> None:
        if isinstance(message, CheckpointCompleted):
            with self._changed:
                self._number += 1
                self._changed.notify_all()


def at_checkpoints(folder: Path) -> Iterator[tuple[int, Mapping[str, list[Row]]]]:
    """Yield the rows of all tables at each checkpoint that has changed one."""
    changes: dict[int, dict[str, list[Row]]] = {}
    for table, (columns, *_) in TABLES.items():
        names = tuple(column.split()[0] for column in columns.split(", "))
        for checkpoint_id, rows in versions(folder / table, names):
            changes.setdefault(checkpoint_id, {})[table] = rows
    tables: dict[str, list[Row]] = {table: [] for table in TABLES}
    for checkpoint_id in sorted(changes):
        tables = {**tables, **changes[checkpoint_id]}
        yield checkpoint_id, tables


def check_tables(tables: Mapping[str, list[Row]]) -> None:
    """Compare all tables with the balances, of which no amount may be missing."""
    balances: dict[int, int] = dict(tables["balances"])
    assert sum(balances.values()) == OPENING * len(balances)
    assert tables["totals"] == [(1, len(balances), OPENING * len(balances))]
    pairs = [account for account in sorted(balances) if account + 1 in balances]
    sums = [(account, account + 1, balances[account] + balances[account + 1]) for account in pairs]
    assert tables["neighbours"] == sums
    newest = {account % BANKS: account for account in sorted(balances)}
    assert tables["newest"] == sorted((bank, account, balances[account]) for bank, account in newest.items())


def run_transfers(
    env: StreamExecutionEnvironment, folder: Path, moment: Moment, parallelism: int, files: int
) -> list[int]:
    """Run the job with a kill, check its tables at each checkpoint, and return the checkpoints that changed one."""
    (folder / "transfers").mkdir()
    kill = kill_at(env, moment)
    client = start_tables(env, folder, parallelism)
    checkpoints = Checkpoints(client)
    for _ in write_transfers(folder / "transfers", files, rows=30):
        checkpoints.wait_for_next()
    (folder / "transfers" / END).touch()
    client.wait(timeout=PATIENCE_SECONDS)
    assert kill.done

    seen = []
    for checkpoint_id, tables in at_checkpoints(folder):
        check_tables(tables)
        seen.append(checkpoint_id)
    expected = pd.read_parquet(folder / "transfers")
    received, sent = (expected.groupby(side)["amount"].sum() for side in ("target", "source"))
    balances = received.sub(sent, fill_value=0).astype(int) + OPENING
    assert tables["balances"] == sorted(balances.items())
    return seen


def test_no_checkpoint_shows_a_part_of_a_transfer(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    kill = Moment(name="publishing", matches=lambda said: isinstance(said, CommitCheckpoint), count=6)

    assert len(run_transfers(environment(), tmp_path, kill, parallelism=2, files=2)) >= 2


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "moment",
    [
        Moment(name="computing", matches=lambda said: isinstance(said, StageResult), count=40),
        Moment(name="writing a snapshot", matches=lambda said: isinstance(said, SnapshotWritten), count=20),
        Moment(name="publishing", matches=lambda said: isinstance(said, CommitCheckpoint), count=20),
    ],
    ids=lambda moment: moment.name,
)
def test_no_checkpoint_of_many_shows_a_part_of_a_transfer(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path, moment: Moment, parallelism: int
) -> None:
    assert len(run_transfers(environment(), tmp_path, moment, parallelism, files=12)) >= 12
