"""Area 01, component `failure_manager`: how failed checkpoints are counted."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint.failure_manager import COUNTED, CheckpointFailureManager
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.words import reason


def run_case(case: Case) -> None:
    only_known_words("given", case["given"], {"component", "tolerable"})
    only_known_words("expect", case["expect"], {"job_failures", "counting_reasons", "construction_error"})
    if case["expect"].get("construction_error"):
        with pytest.raises(ValueError, match="0 or more"):
            CheckpointFailureManager(case["given"]["tolerable"])
        return
    manager = CheckpointFailureManager(case["given"]["tolerable"])
    failures = 0
    for step in case["steps"]:
        match step:
            case ["fail", str(why), int(checkpoint_id)]:
                failures += manager.fail(checkpoint_id, reason(why)) is not None
            case ["success", int(checkpoint_id)]:
                manager.succeed(checkpoint_id)
            case ["fail_each_known_reason_once", int(checkpoint_id)]:
                failures += sum(manager.fail(checkpoint_id, known) is not None for known in CheckpointDeclineReason)
            case _:
                raise UnknownWordError(step)

    assert failures == case["expect"]["job_failures"]
    if "counting_reasons" in case["expect"]:
        assert {reason(word) for word in case["expect"]["counting_reasons"]} == COUNTED
