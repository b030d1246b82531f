"""Console lines about rescales."""

from __future__ import annotations

import pytest

from flykka.console.event_lines import rescale_text
from flykka.messages.control.rescaling import Rescale, RescaleTerminatedReason, RescaleTrigger, VertexRescale
from flykka.messages.wire.ids import JobVertexId

Reason, Trigger = RescaleTerminatedReason, RescaleTrigger


def rescale(
    trigger: RescaleTrigger, reason: RescaleTerminatedReason | None, before: int | None, after: int, comment: str = ""
) -> Rescale:
    sums = VertexRescale(
        vertex_id=JobVertexId("v"),
        name="sums",
        slot_sharing_group="default",
        sufficient_parallelism=1,
        desired_parallelism=4,
        pre_parallelism=before,
        post_parallelism=after,
    )
    return Rescale(
        rescale_id="r",
        requirements_id="q",
        attempt=1,
        trigger=trigger,
        started_ms=0,
        vertices=(sums,),
        ended_ms=None if reason is None else 1,
        reason=reason,
        comment=comment,
    )


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (rescale(Trigger.UPDATE_REQUIREMENT, Reason.SUCCEEDED, 1, 3), "rescaled: sums 1 -> 3"),
        (rescale(Trigger.INITIAL_SCHEDULE, Reason.SUCCEEDED, None, 2), "rescaled: sums 2 of 4"),
        (rescale(Trigger.INITIAL_SCHEDULE, Reason.SUCCEEDED, None, 4), None),
        (rescale(Trigger.UPDATE_REQUIREMENT, None, 1, 3), None),
        (
            rescale(Trigger.UPDATE_REQUIREMENT, Reason.NO_RESOURCES_OR_PARALLELISMS_CHANGE, 1, 1, "2 slots"),
            "not rescaled: 2 slots",
        ),
        (rescale(Trigger.RECOVERABLE_FAILOVER, Reason.NO_RESOURCES_OR_PARALLELISMS_CHANGE, 1, 1), None),
        (rescale(Trigger.UPDATE_REQUIREMENT, Reason.JOB_FINISHED, 1, 3), "not rescaled: JOB_FINISHED"),
        (rescale(Trigger.INITIAL_SCHEDULE, Reason.EXCEPTION_OCCURRED, None, 0, "0 came"), "not rescaled: 0 came"),
    ],
)
def test_the_outcome_of_a_rescale_is_one_line(outcome: Rescale, line: str | None) -> None:
    assert rescale_text(outcome) == line
