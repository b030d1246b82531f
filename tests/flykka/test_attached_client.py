"""A job that ends with its client, and enrichers that label failures, in an environment on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import (
    DataGenSource,
    FailureContext,
    FailureEnricher,
    FailureType,
    FileSink,
    ListeningBehaviour,
    RestartStrategies,
    StreamExecutionEnvironment,
)
from flykka.errors import JobCancelledError, JobExecutionError, ProgramError
from flykka.messages.wire.failure import SerializedThrowable

pytestmark = pytest.mark.spark


class Blame(FailureEnricher):
    def get_output_keys(self) -> Set[str]:
        return {"kind", "type"}

    def process_failure(self, cause: SerializedThrowable, context: FailureContext) -> Mapping[str, str]:
        return {"kind": context.failure_type.value.lower(), "type": cause.type_name}


def environment(tmp_path: Path) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(task_managers=1)
    env.set_checkpoint_dir(str(tmp_path / "checkpoints")).add_failure_enricher(Blame())
    return env.set_rpc_timeout("20s")


@pytest.mark.slow
@pytest.mark.integration
def test_a_job_whose_client_dies_is_cancelled_with_a_recorded_reason(spark: SparkSession, tmp_path: Path) -> None:
    with environment(tmp_path) as env:
        env.set_shutdown_on_attached_exit(heartbeat_interval="50ms", heartbeat_timeout="500ms")
        numbers = env.from_source(
            DataGenSource({"id": F.col("index")}, number_of_rows=None, rows_per_second=10), uid="numbers"
        )
        numbers.sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")
        job = env.execute_async("orphan")
        other = env.cluster.job(job.job_id)
        client = env.cluster.system.find(f"/user/job-client-{job.job_id}")
        assert client is not None
        assert job.job_graph.rpc_timeout_ms == 20_000

        env.cluster.system.kill(client)

        with pytest.raises(JobCancelledError, match="job 'orphan' was cancelled: the client of job 'orphan'"):
            other.wait(timeout=60)
        (entry,) = other.exception_history
        assert entry.root.cause.type_name == "ClientHeartbeatTimeoutError"
        labels = {label.key: label.value for label in entry.root.failure_labels}
        assert labels == {"kind": FailureType.GLOBAL.value.lower(), "type": "ClientHeartbeatTimeoutError"}


@pytest.mark.slow
@pytest.mark.integration
def test_the_labels_of_a_task_failure_are_present_in_the_result(spark: SparkSession, tmp_path: Path) -> None:
    with environment(tmp_path) as env:
        env.set_restart_strategy(RestartStrategies.no_restart())
        numbers = env.from_dataframe(spark.range(3), uid="numbers")
        numbers.where("raise_error('boom') is null").uid("boom").sink_to(FileSink.parquet(str(tmp_path / "out"))).uid(
            "out"
        )
        job = env.execute_async("failing", attached=ListeningBehaviour.EXECUTION_RESULT)

        with pytest.raises(JobExecutionError, match="boom"):
            job.wait(timeout=60)

        labels = {label.key: label.value for label in job.exception_history[0].root.failure_labels}
        assert labels["kind"] == "task"
        assert "labels: kind=task, type=" in repr(job.exception_history)


def test_invalid_listeners_and_enrichers_are_refused_on_the_users_line(spark: SparkSession, tmp_path: Path) -> None:
    with environment(tmp_path) as env:
        with pytest.raises(ProgramError, match="Blame declares the keys kind, type, as Blame does already"):
            env.add_failure_enricher(Blame())
        with pytest.raises(ProgramError, match="must be longer than their interval"):
            env.set_shutdown_on_attached_exit(heartbeat_interval="1s", heartbeat_timeout="1s")
        assert env.set_shutdown_on_attached_exit().job_settings.shuts_down_on_attached_exit
        assert not env.set_shutdown_on_attached_exit(False).job_settings.shuts_down_on_attached_exit
