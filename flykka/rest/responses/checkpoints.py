"""Checkpoints: counts, summary, history, and details by vertex and subtask (Flink's CheckpointingStatistics)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    CheckpointStatsStatus,
    StatsSummary,
    SubtaskCheckpointStatistics,
)
from flykka.messages.graph.job_graph import CheckpointingMode, ExternalizedCheckpointRetention, JobGraph, JobVertex
from flykka.rest.responses.io_metrics import NEVER, Json, summary_over


def checkpointing_statistics(stats: CheckpointStatsSnapshot, restored_ms: int | None, *, listed: int) -> Json:
    """Format the newest `listed` checkpoints of a job. `restored_ms` is the time of its last restore."""
    completed = [each for each in stats.history if each.status is CheckpointStatsStatus.COMPLETED]
    counts, summary = stats.counts, stats.summary
    latest: Json = {
        "completed": _or_none(stats.latest_completed),
        "savepoint": _or_none(stats.latest_savepoint),
        "failed": _or_none(stats.latest_failed),
        "restored": _restored(stats, restored_ms),
    }
    return {
        "counts": {
            "restored": counts.restored,
            "total": counts.total,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
        },
        "summary": {
            "checkpointed_size": _over_history(
                summary.incremental_bytes, [each.incremental_bytes for each in completed]
            ),
            "state_size": _over_history(summary.size_bytes, [each.size_bytes for each in completed]),
            "end_to_end_duration": _over_history(summary.duration_ms, [each.duration_ms for each in completed]),
            "alignment_buffered": summary_over([]),
            "processed_data": _over_history(summary.processed_bytes, [each.processed_bytes for each in completed]),
            "persisted_data": _over_history(summary.persisted_bytes, [each.persisted_bytes for each in completed]),
        },
        "latest": {kind: checkpoint for kind, checkpoint in latest.items() if checkpoint is not None},
        "history": [_checkpoint(each) for each in stats.history[:listed]],
    }


def checkpoint_details(
    checkpoint: CheckpointStatistics, subtasks: Sequence[SubtaskCheckpointStatistics], vertices: Iterable[JobVertex]
) -> Json:
    return {
        **_checkpoint(checkpoint),
        "tasks": {each.vertex_id: _task(checkpoint, subtasks, each) for each in vertices},
    }


def subtask_details(
    checkpoint: CheckpointStatistics,
    subtasks: Sequence[SubtaskCheckpointStatistics],
    vertex: JobVertex,
) -> Json:
    """Format the subtasks of a vertex in a checkpoint, or only their sums if the subtasks are not retained."""
    is_kept = bool(subtasks) or not checkpoint.num_acknowledged_subtasks
    there = {each.subtask: each for each in subtasks if each.vertex_id == vertex.vertex_id}
    of = [each.metrics for each in there.values()]
    return {
        **_task(checkpoint, subtasks, vertex),
        "summary": {
            "checkpointed_size": summary_over([each.incremental_bytes for each in of]),
            "state_size": summary_over([each.size_bytes for each in of]),
            "end_to_end_duration": summary_over(
                [max(0, each.ack_ms - checkpoint.trigger_ms) for each in there.values()]
            ),
            "checkpoint_duration": {
                "sync": summary_over([each.sync_ms for each in of]),
                "async": summary_over([each.async_ms for each in of]),
            },
            "alignment": {
                "buffered": summary_over([]),
                "processed": summary_over([each.bytes_processed_during_alignment for each in of]),
                "persisted": summary_over([each.bytes_persisted_during_alignment for each in of]),
                "duration": summary_over([each.alignment_ms for each in of]),
            },
            "start_delay": summary_over([each.start_delay_ms for each in of]),
        },
        # If the subtasks are not retained, "pending" would be wrong.
        "subtasks": [
            _subtask(number, there.get(number), checkpoint) for number in range(vertex.parallelism if is_kept else 0)
        ],
    }


def checkpoint_config(graph: JobGraph) -> Json:
    """Format the checkpoint settings of a job (Flink's CheckpointConfigInfo)."""
    settings = graph.checkpointing
    retention = settings.retention
    return {
        "mode": "exactly_once" if settings.mode is CheckpointingMode.EXACTLY_ONCE else "at_least_once",
        "interval": settings.interval_ms if settings.interval_ms is not None else 2**63 - 1,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": "SparkStateBackend",
        "checkpoint_storage": settings.directory,
        "unaligned_checkpoints": settings.unaligned,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "",
    }


def _or_none(stats: CheckpointStatistics | None) -> Json | None:
    return None if stats is None else _checkpoint(stats)


def _restored(stats: CheckpointStatsSnapshot, restored_ms: int | None) -> Json | None:
    if stats.latest_restored is None:
        return None
    checkpoint = next((each for each in stats.history if each.checkpoint_id == stats.latest_restored), None)
    return {
        "id": stats.latest_restored,
        "restore_timestamp": restored_ms or 0,
        "is_savepoint": checkpoint is not None and checkpoint.is_savepoint,
        "external_path": "" if checkpoint is None or checkpoint.path is None else checkpoint.path,
    }


def _checkpoint(stats: CheckpointStatistics) -> Json:
    kind = "SAVEPOINT" if stats.is_savepoint else "CHECKPOINT"
    answer: Json = {
        "className": stats.status.value.lower(),
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        "is_savepoint": stats.is_savepoint,
        "savepointFormat": "CANONICAL" if stats.is_savepoint else None,
        "trigger_timestamp": stats.trigger_ms,
        # The last acknowledgement completes a checkpoint. For other checkpoints the vertices have this time.
        "latest_ack_timestamp": stats.ended_ms if stats.status is CheckpointStatsStatus.COMPLETED else NEVER,
        "checkpointed_size": stats.incremental_bytes,
        "state_size": stats.size_bytes,
        "end_to_end_duration": stats.duration_ms,
        "alignment_buffered": 0,
        "processed_data": stats.processed_bytes,
        "persisted_data": stats.persisted_bytes,
        "num_subtasks": stats.num_subtasks,
        "num_acknowledged_subtasks": stats.num_acknowledged_subtasks,
        "checkpoint_type": kind,
        "tasks": {},
    }
    if stats.status is CheckpointStatsStatus.COMPLETED:
        answer |= {"external_path": stats.path or "", "discarded": False}
    if stats.status is CheckpointStatsStatus.FAILED:
        answer |= {
            "failure_timestamp": stats.ended_ms,
            "failure_message": stats.failure_text,
        }
    return answer


def _task(checkpoint: CheckpointStatistics, subtasks: Iterable[SubtaskCheckpointStatistics], vertex: JobVertex) -> Json:
    """Format a vertex in a checkpoint: from the stored sums if completed, else from the acknowledged subtasks."""
    summed_up = next((each for each in checkpoint.vertices if each.vertex_id == vertex.vertex_id), None)
    if summed_up is not None:
        took, acknowledged = summed_up.duration_ms, summed_up.acknowledged
        latest = checkpoint.trigger_ms + took
        new, size = summed_up.incremental_bytes, summed_up.size_bytes
        processed, persisted = summed_up.processed_bytes, summed_up.persisted_bytes
    else:
        there = [each for each in subtasks if each.vertex_id == vertex.vertex_id]
        of, acknowledged = [each.metrics for each in there], len(there)
        latest = max((each.ack_ms for each in there), default=NEVER)
        took = max(0, latest - checkpoint.trigger_ms) if there else NEVER
        new, size = sum(each.incremental_bytes for each in of), sum(each.size_bytes for each in of)
        processed = sum(each.bytes_processed_during_alignment for each in of)
        persisted = sum(each.bytes_persisted_during_alignment for each in of)
    return {
        "id": checkpoint.checkpoint_id,
        "status": checkpoint.status.value,
        "latest_ack_timestamp": latest,
        "checkpointed_size": new,
        "state_size": size,
        "end_to_end_duration": took,
        "alignment_buffered": 0,
        "processed_data": processed,
        "persisted_data": persisted,
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": acknowledged,
    }


def _subtask(number: int, stats: SubtaskCheckpointStatistics | None, checkpoint: CheckpointStatistics) -> Json:
    if stats is None:
        return {"index": number, "status": "pending"}
    metrics = stats.metrics
    return {
        "index": number,
        "status": "completed",
        "ack_timestamp": stats.ack_ms,
        "end_to_end_duration": max(0, stats.ack_ms - checkpoint.trigger_ms),
        "checkpointed_size": metrics.incremental_bytes,
        "state_size": metrics.size_bytes,
        "checkpoint": {"sync": metrics.sync_ms, "async": metrics.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": metrics.bytes_processed_during_alignment,
            "persisted": metrics.bytes_persisted_during_alignment,
            "duration": metrics.alignment_ms,
        },
        "start_delay": metrics.start_delay_ms,
        "unaligned_checkpoint": metrics.is_unaligned,
        "aborted": False,
    }


def _over_history(all_of_them: StatsSummary, values: Sequence[int]) -> Json:
    """Format minimum, maximum and average over all checkpoints, and percentiles over the retained checkpoints."""
    return {
        **summary_over(values),
        "min": all_of_them.minimum,
        "max": all_of_them.maximum,
        "avg": all_of_them.average,
    }
