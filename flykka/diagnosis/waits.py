"""Chains of waits: an attempt waits for its stage, snapshot or input, or for another attempt, which may wait in turn.

The first condition that holds describes a wait: the Task is unresponsive; it is ending; a stage is running; its outputs
are full, so that it waits for a consumer; a barrier is missing, or there is no input, so that it waits for a producer.
Reports from slightly different times may contradict each other, so a chain ends before it would repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flykka.diagnosis.reports import ActorReports, UnresponsiveActor
from flykka.messages.monitoring.explanation import AttemptExplained, ChannelExplained, StageProgress, TaskExplained
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, ResultPartitionId, producer_of
from flykka.views.text.formats import counted, lasting

STANDS_STILL_MS = 5_000
"""Milliseconds without a finished Spark task after which a stage is reported as making no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLink:
    """An attempt and its wait: the reason `why` (a phrase about "it"), its start, and the awaited attempt, if any."""

    attempt: ExecutionAttemptId
    why: str
    since_ms: int | None = None
    on: ExecutionAttemptId | None = None


class Waits:
    def __init__(self, reports: ActorReports) -> None:
        self._reports = reports
        self._known: Mapping[ExecutionAttemptId, AttemptExplained] = (
            {} if reports.job is None else {each.attempt: each for each in reports.job.attempts}
        )
        self._readers: dict[tuple[ResultPartitionId, int], ExecutionAttemptId] = {
            (channel.partition_id, channel.subpartition): task.attempt
            for task in reports.tasks.values()
            for channel in task.channels
        }

    def name(self, attempt: ExecutionAttemptId) -> str:
        explained = self._known.get(attempt)
        return str(attempt) if explained is None else explained.name

    def chain(self, attempt: ExecutionAttemptId) -> list[WaitLink]:
        """Return the chain of waits, from this attempt to the attempt for which all others wait."""
        links: list[WaitLink] = []
        visited: set[ExecutionAttemptId] = set()
        following: ExecutionAttemptId | None = attempt
        while following is not None and following not in visited:
            visited.add(following)
            links.append(self.link(following))
            following = links[-1].on
        return links

    def text_of(self, attempt: ExecutionAttemptId) -> str:
        first, *others = self.chain(attempt)
        if not others:
            return first.why
        # The attempts in between are omitted: each of them waits for the next one.
        return f"{first.why}; {self.name(others[-1].attempt)}: {others[-1].why}"

    def link(self, attempt: ExecutionAttemptId) -> WaitLink:
        task = self._reports.tasks.get(attempt)
        silence = self._reports.unresponsive_task(attempt)
        if silence is not None:
            return WaitLink(attempt=attempt, why=unanswered(silence, self._reports.time_limit_ms))
        if task is None:
            return self._without_task(attempt)
        if task.ending is not None:
            return self._ending(task)
        if task.state is not ExecutionState.RUNNING:
            return WaitLink(attempt=attempt, why=f"it is {task.state}{self._at_work(attempt)}")
        return self._running(task)

    def _without_task(self, attempt: ExecutionAttemptId) -> WaitLink:
        explained = self._known.get(attempt)
        if explained is None:
            return WaitLink(attempt=attempt, why="the job has no such attempt any more")
        words = {
            ExecutionState.CREATED: "it is not scheduled yet",
            ExecutionState.SCHEDULED: "it waits for a slot" if explained.task_manager_id is None else "it has a slot",
            ExecutionState.DEPLOYING: f"it is being deployed on {explained.task_manager_id}",
        }
        why = words.get(explained.state, f"it is {explained.state}, and its Task has ended")
        return WaitLink(attempt=attempt, why=why, since_ms=explained.since_ms)

    def _ending(self, task: TaskExplained) -> WaitLink:
        explained = self._known.get(task.attempt)
        why = f"it is closing, and will be {task.ending}{self._at_work(task.attempt)}"
        return WaitLink(attempt=task.attempt, why=why, since_ms=None if explained is None else explained.since_ms)

    def _running(self, task: TaskExplained) -> WaitLink:
        attempt = task.attempt
        if task.stages:
            oldest = task.stages[0]
            why = self._at_work(attempt, lead="") or f"it {oldest.purpose}"
            return WaitLink(attempt=attempt, why=why, since_ms=oldest.since_ms)
        full = next((output for output in task.outputs if output.is_full), None)
        if full is not None:
            return self._back_pressured(task, full.partition_id, full.subpartition)
        missing = [channel for channel in task.channels if channel.barrier_missing]
        if task.aligning is not None and missing:
            return self._on_producer(task, missing, f"the barrier of checkpoint {task.aligning}")
        if task.snapshotting:
            why = f"it writes its snapshot for checkpoint {task.snapshotting[0]}{self._at_work(attempt)}"
        elif task.waits_for_final_checkpoint:
            why = "it has processed its last row and waits for the final checkpoint"
        elif task.waits_for_group is not None:
            why = f"it waits for the sources of group '{task.waits_for_group}', which are far behind in event time"
        elif task.waits_for_splits:
            why = "it waits for input to read"
        elif task.channels:
            return self._on_producer(task, task.channels, "input")
        else:
            why = f"it is {task.activity}"
        return WaitLink(attempt=attempt, why=why, since_ms=task.activity_since_ms)

    def _back_pressured(self, task: TaskExplained, partition: ResultPartitionId, subpartition: int) -> WaitLink:
        reader = self._readers.get((partition, subpartition))
        name = "its reader" if reader is None else self.name(reader)
        why = f"its output is full: {name} accepts no more batches"
        return WaitLink(attempt=task.attempt, why=why, since_ms=task.activity_since_ms, on=reader)

    def _on_producer(self, task: TaskExplained, channels: Iterable[ChannelExplained], what: str) -> WaitLink:
        producers = [producer_of(channel.partition_id) for channel in channels if not channel.queued]
        first = next((each for each in producers if each in self._reports.tasks or self._is_unanswered(each)), None)
        if first is None:
            first = producers[0] if producers else None
        if first is None:
            return WaitLink(attempt=task.attempt, why=f"it is {task.activity}", since_ms=task.activity_since_ms)
        others = f" and {len(producers) - 1} others" if len(producers) > 1 else ""
        why = f"it waits for {what} of {self.name(first)}{others}"
        return WaitLink(attempt=task.attempt, why=why, since_ms=task.activity_since_ms, on=first)

    def _is_unanswered(self, attempt: ExecutionAttemptId) -> bool:
        return self._reports.unresponsive_task(attempt) is not None

    def _at_work(self, attempt: ExecutionAttemptId, *, lead: str = ": ") -> str:
        stages = self._reports.stages.get(attempt, ())
        return f"{lead}{progress(stages[0], self._reports.now_ms)}" if stages else ""


def unanswered(actor: UnresponsiveActor, time_limit_ms: int) -> str:
    text = f"it has not answered for {lasting(time_limit_ms)}"
    at = f" and is handling {actor.handles}" if actor.handles else ""
    behind = f", {counted(actor.waiting, 'message')} waiting" if actor.waiting else ""
    return f"{text}{at}{behind}"


def progress(stage: StageProgress, now_ms: int) -> str:
    if not stage.tasks:
        return f"its {stage.what} has no running Spark job"
    text = f"its {stage.what} has finished {stage.tasks_done} of {stage.tasks} Spark tasks"
    if stage.tasks_failed:
        text += f", {stage.tasks_failed} failed"
    quiet_ms = now_ms - (stage.since_ms if stage.progress_ms is None else stage.progress_ms)
    if quiet_ms >= STANDS_STILL_MS:
        text += f", none finished for {lasting(quiet_ms)}"
    return text
