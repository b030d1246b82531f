"""Failures that a restart cannot repair are distinguished from the others."""

from __future__ import annotations

import pytest

from flykka.actors.errors import OwnershipLostError
from flykka.actors.machines.restart.failure_handler import ThrowableType, classify
from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.errors import serialized


@pytest.mark.parametrize(
    "cause",
    [
        serialized(OwnershipLostError("process 7 runs the job")),
        # Spark reports a failed commit with the name of its operator.
        SerializedThrowable(type_name="OwnershipLostError", message="stage 3 of 'output': process 7 runs the job"),
    ],
)
def test_a_replaced_process_does_not_restart_its_job(cause: SerializedThrowable) -> None:
    assert classify(cause) is ThrowableType.NON_RECOVERABLE
