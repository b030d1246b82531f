"""What every attempt of one job uses together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.operators.source import SourceReaders
    from flykka.spark_bridge.program.code_registry import CodeRegistry
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.spark_sessions import SparkSessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The session with our settings, the batches in it, the code of the application and what reads its sources, files.

    `user_session` is the application's own, for its functions that are given a DataFrame to do with what they like.

    `sessions` knows whether they still run, and begins others where they do not.

    What is cancelled and has not returned after `cancellation_timeout_seconds` is not waited for any longer.
    `job_name` is empty for a job that was never looked at before it ran.
    """

    sessions: SparkSessions
    session: SparkSession
    user_session: SparkSession
    store: BatchStore
    readers: SourceReaders
    registry: CodeRegistry
    filesystem: FileSystem
    cancellation_timeout_seconds: float
    job_name: str = ""
