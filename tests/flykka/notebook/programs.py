"""Code for cells: a job that runs until a file in `folder` marks the end of its input."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

UNNAMED = """
from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy

env = StreamExecutionEnvironment.get_execution_environment("local[1]")
env.enable_checkpointing("200ms")
"""
"""A program without a checkpoint directory: its checkpoints are in a temporary folder."""

ENVIRONMENT = UNNAMED + 'env.set_checkpoint_dir(f"{folder}/checkpoints")\n'

JOB = """
numbers = FileSource.parquet(f"{folder}/input", schema="number long").monitor_continuously("100ms", until="_SUCCESS")
(
    env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", uid="numbers")
    .where("number % 2 = 0")
    .sink_to(FileSink.parquet(f"{folder}/output"))
    .uid("output")
)
job = env.execute_async("even numbers")
"""

NUMBERS = 1_000


def write_input(folder: Path) -> None:
    """Write a thousand numbers, without the `_SUCCESS` file that ends the input."""
    (folder / "input").mkdir()
    pd.DataFrame({"number": range(NUMBERS)}).to_parquet(folder / "input" / "numbers.parquet")


def end_input(folder: Path) -> None:
    (folder / "input" / "_SUCCESS").touch()


def checkpoints(folder: Path) -> list[Path]:
    return [metadata.parent for metadata in folder.glob("checkpoints/*/*/_metadata")]


def published_numbers(folder: Path) -> list[int]:
    return sorted(pd.read_parquet(folder / "output")["number"])


EVEN_NUMBERS = list(range(0, NUMBERS, 2))
