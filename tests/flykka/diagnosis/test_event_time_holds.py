"""`flykka why` names the source or partition that holds back event time."""

from __future__ import annotations

import pytest

from flykka.diagnosis.job_diagnosis import diagnose
from flykka.messages.tasks.task import EventTimeHold
from tests.flykka.diagnosis.reports import NOW, SOURCE, WINDOW_1, answers, task


@pytest.mark.parametrize(
    ("holds", "event_time"),
    [
        ([EventTimeHold(subtask=0, since_ms=NOW - 9_999, partition="bids-3")], None),
        (
            [EventTimeHold(subtask=0, since_ms=NOW - 20_000, partition="bids-3")],
            "waits for partition 'bids-3' of source (1/1): no row with an event time for 20 s",
        ),
        (
            [EventTimeHold(subtask=0, since_ms=NOW - 20_000, watermark_ms=3_600_000)],
            "waits at 1970-01-01 01:00:00 for source (1/1): no row for 20 s",
        ),
        (
            # The source that is further back counts, and it is not idle.
            [
                EventTimeHold(subtask=0, since_ms=NOW - 20_000, watermark_ms=3_600_000),
                EventTimeHold(subtask=0, since_ms=NOW, watermark_ms=1_800_000),
            ],
            None,
        ),
    ],
)
def test_the_source_and_partition_that_hold_back_event_time_are_named(
    holds: list[EventTimeHold], event_time: str | None
) -> None:
    tasks = [task(name, held_back_by=hold) for name, hold in zip((SOURCE, WINDOW_1), holds, strict=False)]

    assert dict(diagnose(answers(*tasks)).facts).get("event time") == event_time
