"""Initializes the operator state of a function in a Python worker, before its first row. For `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.worker.function_spec import FunctionSpec

R = TypeVar("R", KeyedFunctionRunner, ProcessFunctionRunner)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState(Generic[R]):
    """Opens the function with the state that it is restored with."""

    spec: FunctionSpec
    runner: type[R]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Open it, for a single row; the state that it begins with."""
        for _ in batches:
            with self.spec.running(self.runner) as runner:
                pass
            yield pa.RecordBatch.from_pydict(dict(self.spec.state_rows(runner)))
