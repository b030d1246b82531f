"""Tests that the page about errors is complete."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from flykka import errors as of_flykka
from flykka.actors import errors as of_jobs
from flykka.runtime import errors as of_the_kernel
from flykka.spark_bridge import errors as of_the_way_to_spark
from tests.layout.sources import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROOTS = {"FlykkaError", "SparkBridgeError", "JobRuntimeError", "KernelError"}
SEEN_BY_NO_USER = {
    # Raised and handled within a package, or reported in other words.
    "AttemptCancelledError",
    "AttemptReplacedError",
    "ChainError",
    "PredecessorRunsError",
    "UnknownBatchError",
    "GraphError",
    "IllegalTransitionError",
    "NetworkBufferError",
    "BufferPoolDestroyedError",
    "CheckpointStorageError",
    "CheckpointFormatError",
    "CheckpointVersionError",
    "FailureEnricherError",
    "NetworkBuffersExhaustedError",
    "UserFileError",
}


def errors_of(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, Exception)}


def test_the_page_for_actor_authors_lists_every_kernel_error() -> None:
    kernel = (ROOT / "docs" / "kernel.md").read_text(encoding="utf-8")

    assert {name for name in errors_of(of_the_kernel) - ROOTS if name not in PAGE + kernel} == set()


@pytest.mark.parametrize("module", [of_flykka, of_the_way_to_spark, of_jobs])
def test_the_errors_page_lists_every_user_facing_error(module: ModuleType) -> None:
    names = errors_of(module) - SEEN_BY_NO_USER - ROOTS

    assert {name for name in names if f"`{name}`" not in PAGE} == set()


@pytest.mark.slow
def test_every_error_on_the_page_exists() -> None:
    documented = set(re.findall(r"`(\w+Error)`", PAGE))

    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for package in ("flykka", "actors", "runtime", "spark_bridge")
        for path in (ROOT / package).rglob("*.py")
    )
    builtin = {"ValueError", "TypeError", "TimeoutError"}
    assert {
        name for name in documented - builtin if not re.search(rf'class {name}\b|type_name="{name}"|"{name}"', sources)
    } == set()
