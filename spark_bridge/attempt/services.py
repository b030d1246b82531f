"""The services that all attempts of one run of a job share. Each component gets only the services that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.operators.global_aggregates import JobAggregates
    from flykka.spark_bridge.operators.source_reader import SourceReaders
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.spark_sessions import SparkSessions
    from flykka.spark_bridge.state.local_state import LocalStates
    from flykka.spark_bridge.user_files.job_files import JobFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServices:
    """The services of a job, used only by engines. `session` has flykka's settings."""

    sessions: SparkSessions
    session: SparkSession
    store: BatchStore
    local_states: LocalStates
    readers: SourceReaders
    aggregates: JobAggregates
    registry: CodeRegistry
    filesystem: FileSystem
    files: JobFiles
    cancellation_timeout_seconds: float
    background_merges: bool = True
