"""The process of a job on Spark, queried over HTTP while the job runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def function_names(node: dict[str, Any]) -> set[str]:
    """Return the function names of a flame graph, without their lines."""
    return {node["name"].rpartition(":")[0]}.union(*(function_names(child) for child in node["children"]))


# In each run, another test covers memory and threads, and a cluster without Spark covers flame graphs.
@pytest.mark.long
def test_memory_threads_and_flame_graphs_cover_the_working_attempts(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(50).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest().enable_checkpointing("100ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("100ms", until=None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
        numbers.sink_to(FileSink.parquet(tmp_path / "out")).uid("out")
        job = env.execute_async("numbers")
        wait_checkpoint(job)
        assert env.rest_address is not None
        with httpx.Client(base_url=env.rest_address, timeout=30) as http:
            heap = http.get("/jobmanager/metrics?get=Status.JVM.Memory.Heap.Used").json()
            threads = http.get("/taskmanagers/task-manager-1/thread-dump").json()["threadInfos"]
            graph = f"/jobs/{job.job_id}/vertices/{job.details.vertices[0].vertex_id}/flamegraph"
            while "data" not in (response := http.get(graph).json()):
                assert response == {"endTimestamp": -3}
            job.cancel()
            with pytest.raises(Exception, match="was cancelled"):
                job.wait(timeout=60)
            ended = http.get(graph).json()

    assert int(heap[0]["value"]) > 1_000_000
    assert {each["threadName"].partition("_")[0] for each in threads} == {job.job_id}
    assert "flykka.spark_bridge.attempt.stage_executor._serve" in function_names(response["data"])
    assert ended == {"endTimestamp": -1}
