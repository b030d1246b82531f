"""Services that all attempts of a job share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.connectors.job_owners import JobOwner
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.operators.global_aggregates import JobAggregates
    from flykka.spark_bridge.operators.local_state import LocalStates
    from flykka.spark_bridge.operators.source import SourceReaders
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.fast_paths import FastPaths
    from flykka.spark_bridge.session.spark_sessions import SparkSessions
    from flykka.spark_bridge.user_files.job_files import JobFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Session with our settings, batches in it, state of checkpoints that is still there, code of the application,
    readers of its sources, its global aggregates, file system, and the files that were registered for its functions.
    `owner` is this process among those that run the job one after the other.

    `user_session` is the application's, for its functions that are given a DataFrame. `sessions` knows whether they
    still run, and starts others where they do not.

    Cancelled work is waited for `cancellation_timeout_seconds` at most. `job_name` is empty for a job that was not
    inspected before it ran.
    """

    sessions: SparkSessions
    session: SparkSession
    user_session: SparkSession
    store: BatchStore
    local_states: LocalStates
    readers: SourceReaders
    aggregates: JobAggregates
    registry: CodeRegistry
    filesystem: FileSystem
    cancellation_timeout_seconds: float
    fast_paths: FastPaths
    files: JobFiles
    owner: JobOwner
    job_name: str = ""
