"""Chains of waiting: an attempt's stage, snapshot or input, what that waits for in turn, and so on to the end.

A wait is told by what comes first of these: the Task is unresponsive; it is on its way to an end; a stage is at work;
its outputs are full, so that it waits for a reader; a barrier is missing, or there is no input, so that it waits for a
producer. What was seen at slightly different moments may contradict itself: then a chain ends where it would repeat.
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
"""Without a Spark task done for so long, a stage is said to stand still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLink:
    """An attempt and what it waits for: in words (`why`, about "it"), since when, and which other one, if any."""

    attempt: ExecutionAttemptId
    why: str
    since_ms: int | None = None
    on: ExecutionAttemptId | None = None


class Waits:
    """The waits of one job."""

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
        known = self._known.get(attempt)
        return str(attempt) if known is None else known.name

    def chain(self, attempt: ExecutionAttemptId) -> list[WaitLink]:
        """From the attempt to the one at which its wait ends, which is the last."""
        links: list[WaitLink] = []
        seen: set[ExecutionAttemptId] = set()
        following: ExecutionAttemptId | None = attempt
        while following is not None and following not in seen:
            seen.add(following)
            links.append(self.link(following))
            following = links[-1].on
        return links

    def told(self, attempt: ExecutionAttemptId) -> str:
        """The whole chain in words, about "it"."""
        first, *others = self.chain(attempt)
        if not others:
            return first.why
        # Those between the first and the last say nothing new: each waits for the next.
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
        known = self._known.get(attempt)
        if known is None:
            return WaitLink(attempt=attempt, why="the job has no such attempt any more")
        words = {
            ExecutionState.CREATED: "it is not scheduled yet",
            ExecutionState.SCHEDULED: "it waits for a slot" if known.task_manager_id is None else "it has a slot",
            ExecutionState.DEPLOYING: f"it is on its way to {known.task_manager_id}",
        }
        why = words.get(known.state, f"it is {known.state}, and its Task is gone")
        return WaitLink(attempt=attempt, why=why, since_ms=known.since_ms)

    def _ending(self, task: TaskExplained) -> WaitLink:
        known = self._known.get(task.attempt)
        why = f"it closes on its way to {task.ending}{self._at_work(task.attempt)}"
        return WaitLink(attempt=task.attempt, why=why, since_ms=None if known is None else known.since_ms)

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
            why = f"it waits for the sources of group '{task.waits_for_group}', which are far behind it in event time"
        elif task.waits_for_splits:
            why = "it waits for something to read"
        elif task.channels:
            return self._on_producer(task, task.channels, "input")
        else:
            why = f"it is {task.activity}"
        return WaitLink(attempt=attempt, why=why, since_ms=task.activity_since_ms)

    def _back_pressured(self, task: TaskExplained, partition: ResultPartitionId, subpartition: int) -> WaitLink:
        reader = self._readers.get((partition, subpartition))
        name = "its reader" if reader is None else self.name(reader)
        why = f"its output is full: {name} takes no more"
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
        """Return the data plane's report of its oldest stage; nothing where there is none."""
        stages = self._reports.stages.get(attempt, ())
        return f"{lead}{progress(stages[0], self._reports.now_ms)}" if stages else ""


def unanswered(actor: UnresponsiveActor, time_limit_ms: int) -> str:
    said = f"it has not answered for {lasting(time_limit_ms)}"
    at = f" and has {actor.handles} in hand" if actor.handles else ""
    behind = f", {counted(actor.waiting, 'message')} behind it" if actor.waiting else ""
    return f"{said}{at}{behind}"


def progress(stage: StageProgress, now_ms: int) -> str:
    if not stage.tasks:
        return f"its {stage.what} has no Spark job at work"
    text = f"its {stage.what} has finished {stage.tasks_done} of {stage.tasks} Spark tasks"
    if stage.tasks_failed:
        text += f", {stage.tasks_failed} failed"
    quiet_ms = now_ms - (stage.since_ms if stage.progress_ms is None else stage.progress_ms)
    if quiet_ms >= STANDS_STILL_MS:
        text += f", none done for {lasting(quiet_ms)}"
    return text
