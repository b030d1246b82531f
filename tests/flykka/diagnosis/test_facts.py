"""The facts that a diagnosis is based on."""

from __future__ import annotations

from flykka.diagnosis.job_diagnosis import diagnose
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.wire.failure import SerializedThrowable
from tests.flykka.diagnosis.reports import SOURCE, answers, details, job, task


def test_the_cause_of_the_last_failed_checkpoint_is_named() -> None:
    reason = CheckpointDeclineReason.IO_EXCEPTION
    cause = SerializedThrowable(type_name="MasterHookError", message="the master hook 'h' failed: OSError: no route")
    failed = CheckpointStatistics(
        checkpoint_id=3,
        status=CheckpointStatsStatus.FAILED,
        reason=reason,
        failure=CheckpointFailure(reason=reason, cause=cause),
    )
    reports = answers(
        task(SOURCE, waits_for_final_checkpoint=True),
        details=details(last_completed=None, checkpoints_failed=1, last_failed=failed),
    )

    assert "3, failed: IO_EXCEPTION: MasterHookError: the master hook 'h' failed: OSError: no route" in str(
        diagnose(reports)
    )


def test_data_that_an_external_system_retains_for_a_source_is_shown() -> None:
    retained = ("the replication slot 'orders' keeps 12 MB of the server's log",)

    assert dict(diagnose(answers(job=job(retained=retained))).facts)["retained"] == retained[0]
