"""The engines, each of which runs the query in its own process."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Protocol


class EngineName(StrEnum):
    SPARK_BATCH = "spark_batch"
    STRUCTURED_STREAMING = "structured_streaming"
    FLYKKA = "flykka"


class Engine(Protocol):
    """Runs the query repeatedly, from a folder to a folder."""

    def run(self, source: Path, output: Path, scratch: Path) -> int | None:
        """Run the query once and return the number of completed checkpoints. `scratch` is for temporary files."""

    def close(self) -> None: ...


def started(name: EngineName, rows_per_batch: int, rows_per_file: int) -> Engine:
    """Start the engine with this name, importing only its own libraries."""
    match name:
        case EngineName.SPARK_BATCH:
            from benchmarks.engines.spark_batch import SparkBatch

            return SparkBatch()
        case EngineName.STRUCTURED_STREAMING:
            from benchmarks.engines.structured_streaming import StructuredStreaming

            return StructuredStreaming(files_per_batch=rows_per_batch // rows_per_file)
        case EngineName.FLYKKA:
            from benchmarks.engines.flykka_job import FlykkaJob

            return FlykkaJob(rows_per_batch=rows_per_batch)
