"""The steps of a checkpoint, message by message: the phase, the actor and the words of each."""

from __future__ import annotations

from typing import Any, Final

from flykka.runtime.durations import format_ms
from flykka.traces.actor_directory import ActorKind
from flykka.traces.facts import Facts
from flykka.views.text.formats import format_bytes

TRIGGER: Final = "trigger"
BARRIERS: Final = "barriers"
SNAPSHOTS: Final = "snapshots"
ACKNOWLEDGEMENTS: Final = "acknowledgements"
END: Final = "end"
NOTIFICATIONS: Final = "notifications"
COMMITS: Final = "commits"
AFTERWARDS: Final = "afterwards"

STEPS: Final = {
    "checkpoint.snapshot_coordinators": (ActorKind.JOB_MASTER, TRIGGER, "notes where the split enumerators are"),
    "checkpoint.coordinators_snapshotted": (ActorKind.COORDINATOR, TRIGGER, "has the state of the split enumerators"),
    "coordination.master_hooks_triggered": (ActorKind.COORDINATOR, TRIGGER, "the master hooks have run"),
    "coordination.master_hook_failed": (ActorKind.COORDINATOR, TRIGGER, "a master hook has failed"),
    "checkpoint.trigger": (ActorKind.TASK, TRIGGER, "is triggered"),
    "exchange.checkpoint_barrier": (ActorKind.TASK, BARRIERS, "gets a barrier"),
    "exchange.cancel_checkpoint_marker": (ActorKind.TASK, BARRIERS, "gets a cancellation in place of a barrier"),
    "exchange.alignment_timeout_due": (ActorKind.TASK, BARRIERS, "has waited for barriers long enough: goes unaligned"),
    "attempt.snapshot_state": (ActorKind.BRIDGE, SNAPSHOTS, "begins its snapshot"),
    "attempt.hold_batches": (ActorKind.BRIDGE, SNAPSHOTS, "holds batches in flight"),
    "attempt.write_channel_state": (ActorKind.BRIDGE, SNAPSHOTS, "begins to write what barriers overtook"),
    "attempt.prepare_commit": (ActorKind.BRIDGE, SNAPSHOTS, "begins to prepare its output"),
    "attempt.commit_prepared": (ActorKind.TASK, SNAPSHOTS, "has its output prepared"),
    "attempt.write_snapshot": (ActorKind.BRIDGE, SNAPSHOTS, "begins to write its state"),
    "attempt.discard_snapshot": (ActorKind.BRIDGE, SNAPSHOTS, "discards its state"),
    "attempt.snapshot_written": (ActorKind.TASK, SNAPSHOTS, "has its snapshot durable"),
    "attempt.channel_state_written": (ActorKind.TASK, SNAPSHOTS, "has what barriers overtook durable"),
    "checkpoint.acknowledge": (ActorKind.COORDINATOR, ACKNOWLEDGEMENTS, "acknowledged"),
    "checkpoint.decline": (ActorKind.COORDINATOR, ACKNOWLEDGEMENTS, "declined"),
    "coordination.checkpoint_timed_out": (ActorKind.COORDINATOR, END, "has taken longer than it may"),
    "coordination.metadata_written": (ActorKind.COORDINATOR, END, "the metadata is written"),
    "coordination.metadata_write_failed": (ActorKind.COORDINATOR, END, "the metadata could not be written"),
    "job.checkpoint_completed": (ActorKind.JOB_MASTER, END, "is notified that it is complete"),
    "job.checkpoint_aborted": (ActorKind.JOB_MASTER, END, "is notified that it was given up"),
    "coordination.savepoint_completed": (ActorKind.JOB_MASTER, END, "is notified that the savepoint is complete"),
    "coordination.savepoint_failed": (ActorKind.JOB_MASTER, END, "is notified that there is no savepoint"),
    "coordination.stop_failed": (ActorKind.JOB_MASTER, END, "is notified that the job goes on"),
    "checkpoint.notify_complete": (ActorKind.TASK, NOTIFICATIONS, "is notified that it is complete"),
    "checkpoint.notify_aborted": (ActorKind.TASK, NOTIFICATIONS, "is notified that it was given up"),
    "attempt.commit_checkpoint": (ActorKind.BRIDGE, COMMITS, "begins to commit"),
    "attempt.checkpoint_committed": (ActorKind.TASK, COMMITS, "has committed"),
}
"""The actor that takes a step, its phase, and its words; the same message told to another actor is a hop on its way."""

FAILURES: Final = (
    "checkpoint.decline",
    "coordination.checkpoint_timed_out",
    "coordination.master_hook_failed",
    "coordination.metadata_write_failed",
    "coordination.savepoint_failed",
    "job.checkpoint_aborted",
)
_BEGINNINGS = ("checkpoint.snapshot_coordinators", "checkpoint.trigger")
_RESTORED = "job.restored"
_ENDS = ("checkpoint.notify_aborted", "job.checkpoint_aborted")


def step_of(said: Facts, kind: ActorKind) -> tuple[str, str, bool]:
    """Phase and words of what an actor of this kind is told, and whether it is only a hop."""
    if said.tag not in STEPS:
        return AFTERWARDS if said.tag == _RESTORED else END, f"is told {said.name}", True
    at, phase, text = STEPS[said.tag]
    return phase, text, at is not kind


def step_of_sent(sent: Facts, said: str, kind: ActorKind) -> tuple[str, str, bool]:
    """The same of a turn whose own message `said` does not name the checkpoint, but one that it sent."""
    if kind is ActorKind.COORDINATOR and sent.tag in _BEGINNINGS:
        return TRIGGER, f"begins it after {said}", False
    if kind is ActorKind.COORDINATOR and sent.tag in _ENDS:
        return END, f"gives it up after {said}", False
    if kind is ActorKind.JOB_MASTER and sent.tag == _RESTORED:
        return AFTERWARDS, "restarts the tasks from it", False
    phase, _, _ = step_of(sent, kind)
    return phase, f"sends {sent.name} after {said}", True


def detail_of(said: Facts) -> str:
    """Further facts of the message."""
    match said.tag:
        case "checkpoint.acknowledge":
            return _measured(said.part("metrics"))
        case "coordination.metadata_written" | "coordination.savepoint_completed":
            return str(said.get("path"))
        case "attempt.checkpoint_committed":
            files = said.get("files") or ()
            return "" if not files else f"{len(files):,} files" if len(files) > 1 else str(files[0])
        case _:
            reason = said.get("reason")
            return "" if reason is None else str(reason)


def outcome_of(said: Facts) -> str | None:
    """The end of the checkpoint, where the message tells it."""
    match said.tag:
        case "job.checkpoint_completed":
            return f"COMPLETED in {format_ms(said.get('duration_ms'))}, {_size(said)}"
        case "job.checkpoint_aborted":
            return f"ABORTED, {said.get('reason')}"
        case _:
            return None


def _size(said: Facts) -> str:
    size, new = said.get("size_bytes"), said.get("incremental_bytes")
    return f"{format_bytes(size)}, of which {format_bytes(new)} are new"


def _measured(metrics: Facts | None) -> str:
    if metrics is None:
        return ""
    times: list[tuple[str, Any]] = [
        ("delay", metrics.get("start_delay_ms")),
        ("alignment", metrics.get("alignment_ms")),
        ("sync", metrics.get("sync_ms")),
        ("async", metrics.get("async_ms")),
    ]
    return ", ".join(f"{name} {format_ms(ms)}" for name, ms in times if ms)
