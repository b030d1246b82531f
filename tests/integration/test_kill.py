"""Tests that killing a TaskManager at any moment does not change the output. Messages trigger the kills, not clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten, StageResult
from flykka.messages.attempt.commands import CommitCheckpoint, SnapshotState
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.control.slots import AcceptSlots
from flykka.messages.tasks.exchange import BufferResponse, CheckpointBarrier
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import PlannedKill, kill_when
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

NEVER = "1h"
"""An interval longer than the job, so that the final checkpoint is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment before the `count`-th message of a kind is handled below a TaskManager, which is killed at that
    moment.

    Each `long` moment is close to one that is not `long`, or to a moment of another test; simulations kill at every
    moment.
    """

    name: str
    matches: Callable[[Message], bool]
    count: int = 1
    interval: str = "100ms"
    long: bool = False


MOMENTS = (
    # The TaskManager is killed before the job's start state is sent, when the sources have not started.
    Moment(name="before its slots are accepted", matches=lambda said: isinstance(said, AcceptSlots), long=True),
    Moment(name="before the first checkpoint", matches=lambda said: isinstance(said, StageResult), interval=NEVER),
    Moment(name="while a snapshot is taken", matches=lambda said: isinstance(said, SnapshotState), count=2, long=True),
    Moment(
        name="between two barriers of an alignment",
        matches=lambda said: isinstance(said, BufferResponse) and isinstance(said.buffer, CheckpointBarrier),
        count=2,
        long=True,
    ),
    Moment(
        name="between barrier and acknowledgement",
        matches=lambda said: isinstance(said, SnapshotWritten),
        count=2,
        long=True,
    ),
    Moment(
        name="between completion and notification",
        matches=lambda said: isinstance(said, NotifyCheckpointComplete),
        count=2,
        long=True,
    ),
    Moment(
        name="between staging and publishing",
        matches=lambda said: isinstance(said, CommitCheckpoint),
        count=2,
        long=True,
    ),
    Moment(
        name="between the final checkpoint's completion and its publishing",
        matches=lambda said: isinstance(said, CommitCheckpoint),
        interval=NEVER,
        long=True,
    ),
)


def kill_at(env: StreamExecutionEnvironment, moment: Moment) -> PlannedKill:
    """Kill the TaskManager below which the moment's message is about to be handled."""
    recipients: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = recipient.path.startswith("/user/task-manager-") and moment.matches(message)
        if is_moment:
            recipients.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    return kill_when(env.cluster.system, lambda: env.cluster.system.find(recipients[-1]), matches, moment.count)


def assert_exactly_once(spark: SparkSession, sales_files: Path, output: Path) -> None:
    assertDataFrameEqual(spark.read.parquet(str(output)), sales.hourly_batch(spark, sales_files))


@pytest.mark.parametrize(
    "moment", [pytest.param(each, id=each.name, marks=pytest.mark.long if each.long else ()) for each in MOMENTS]
)
def test_a_kill_does_not_change_the_output(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    moment: Moment,
) -> None:
    env = environment()
    kill = kill_at(env, moment)

    sales.start_hourly_sales(env, sales_files, tmp_path / "output", interval=moment.interval).wait(timeout=120)

    assert kill.done
    assert_exactly_once(spark, sales_files, tmp_path / "output")


@pytest.mark.long
def test_two_kills_in_a_row_do_not_change_the_output(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    env = environment()
    first = kill_at(env, Moment(name="first", matches=lambda said: isinstance(said, CommitCheckpoint)))

    client = sales.start_hourly_sales(env, sales_files, tmp_path / "output")
    assert first.wait(timeout=60)
    second = kill_at(env, Moment(name="second", matches=lambda said: isinstance(said, StageResult)))
    client.wait(timeout=120)

    assert second.done
    assert_exactly_once(spark, sales_files, tmp_path / "output")


# Other tests continue a job at another parallelism.
@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 4])
def test_parallelism_does_not_change_the_output(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    parallelism: int,
) -> None:
    env = environment()
    kill = kill_at(env, Moment(name="kill", matches=lambda said: isinstance(said, CommitCheckpoint)))

    sales.start_hourly_sales(env, sales_files, tmp_path / "output", parallelism=parallelism).wait(timeout=120)

    assert kill.done
    assert_exactly_once(spark, sales_files, tmp_path / "output")
