"""Actions right before a commit of a Delta table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark_bridge.sink_contexts import CrashError


def before_the_first_commit(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` once, right before the log is written."""
    commit = DeltaTable.create_write_transaction
    acts = [act]

    def acted(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        if acts:
            acts.pop()()
        commit(self, *args, **kwargs)

    patch.setattr(DeltaTable, "create_write_transaction", acted)


def crash() -> None:
    raise CrashError
