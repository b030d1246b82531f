"""One-line changes of behaviour, one or more in each machine, with the golden trace that must detect each change.

A mutation is a source line and its replacement. If the source line changes, the mutation fails with an error and must
be changed too.
"""

from __future__ import annotations

from tests.histories.planting import Mutation

MUTATIONS = (
    Mutation(
        where="machines.checkpoint.request_decider:MinimumPause.remaining_ms",
        line="return max(0, self._last_completion_ms + self._min_pause_ms - now)",
        instead="return max(0, self._last_completion_ms + self._min_pause_ms - now - 1)",
        history="crowded",
    ),
    Mutation(
        where="machines.checkpoint.request_decider:CheckpointRequestDecider.poll",
        line="if load.pending >= self._max_concurrent and not first.properties.forced:",
        instead="if load.pending > self._max_concurrent and not first.properties.forced:",
        history="at-least-once",
    ),
    Mutation(
        where="machines.checkpoint.pending:PendingCheckpoint.acknowledge",
        line="task = self._awaited.pop(attempt)",
        instead="task = self._awaited.pop(attempt); self._awaited and self._awaited.popitem()",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.checkpoint.pending:PendingCheckpoint.finalize",
        line="duration_ms=now - self.timestamp_ms,",
        instead="duration_ms=now - self.timestamp_ms + 1,",
        history="savepoints",
    ),
    Mutation(
        where="machines.checkpoint.completed_store:CompletedCheckpointStore.add",
        line="too_many = max(0, len(self._checkpoints) - self._retained)",
        instead="too_many = max(0, len(self._checkpoints) - self._retained - 1)",
        history="crowded",
    ),
    Mutation(
        where="machines.checkpoint.completed_store:SharedStateRegistry.unregister",
        line="if entry.references == 0:",
        instead="if entry.references == 1:",
        history="rescaled",
    ),
    Mutation(
        where="machines.checkpoint.failure_manager:CheckpointFailureManager.fail",
        line="if len(count.failed) <= count.limit.tolerable:",
        instead="if len(count.failed) < count.limit.tolerable:",
        history="declined-and-failed",
    ),
    Mutation(
        where="machines.checkpoint.trigger:PeriodicTrigger.tick",
        line="missed = (now - self._due) // self._interval_ms",
        instead="missed = 1 + (now - self._due) // self._interval_ms",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.checkpoint.coordinator:CheckpointCoordinatorMachine._collect",
        line="yield from self._finish(pending, now)",
        instead="yield from ()",
        history="flights-with-a-kill",
    ),
    Mutation(
        where="machines.slots.slot_manager:PendingSlotRequests.next",
        line="request = next(iter(requests.values()), None)",
        instead="request = next(reversed(requests.values()), None)",
        history="crowded",
    ),
    Mutation(
        where="machines.slots.slot_pool:SlotPool._on_offer_slots",
        line="accepted = tuple(allocation_id for allocation_id, effects in answers if effects is not None)",
        instead="accepted = tuple(allocation_id for allocation_id, effects in answers if effects is None)",
        history="savepoints",
    ),
    Mutation(
        where="machines.slots.slot_table:SlotTable._offer",
        line="if not job.connected or job.offered or not job.to_offer:",
        instead="if job.offered or not job.to_offer:",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.restart.failure_handler:ExecutionFailureHandler._decide",
        line="if not self._restarts.can_restart(now):",
        instead="if self._restarts.can_restart(now):",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.restart.restart_strategy:RestartBackoff.drawn",
        line="return drawn if self.max_ms is None else min(drawn, self.max_ms)",
        instead="return drawn + 1 if self.max_ms is None else min(drawn, self.max_ms)",
        history="declined-and-failed",
    ),
    Mutation(
        where="machines.heartbeat:HeartbeatMonitor.tick",
        line="if silent_ms >= target.timeout_ms:",
        instead="if silent_ms >= target.timeout_ms // 5:",
        history="unaligned",
    ),
    Mutation(
        where="machines.sources.source_coordinator:SplitEnumerator._on_splits_discovered",
        line="self._unassigned.extend(event.splits)",
        instead="self._unassigned.extendleft(event.splits)",
        history="unaligned",
    ),
    Mutation(
        where="machines.sources.source_coordinator:SourceCoordinator._on_splits_discovered",
        line="if event.finished:",
        instead="if event.finished or event.splits:",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.checkpoint.savepoint_requests:SavepointRequests._on_location",
        line="return [_ask(SavepointRequest(job_id=self._job_id, request_id=request_id, target_location=location))]",
        instead="return [DiscardLocation(location=location)]",
        history="savepoints",
    ),
    Mutation(
        where="machines.graph.execution_graph:ExecutionGraph._on_end_of_data",
        line="is_last = self._attempts.have_reached_end_of_data",
        instead="is_last = True",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.graph.execution_graph:ExecutionGraph._cancel_attempts",
        line="self.version += 1",
        instead="self.version += 2",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.exchange.checkpoint_barrier_handler:BarrierAligner._complete",
        line="if alignment.missing:",
        instead="if len(alignment.missing) > 1:",
        history="rescaled",
    ),
    Mutation(
        where="machines.exchange.checkpoint_barrier_handler:BarrierAligner.time_out",
        line="return self._go_unaligned(alignment)",
        instead="return []",
        history="unaligned",
    ),
    Mutation(
        where="machines.exchange.credits:ChannelCredits.is_announcement_due",
        line="return self.unannounced > 0 and (self.outstanding == 0 or 2 * self.unannounced >= self.exclusive)",
        instead="return self.unannounced > 0 and (self.outstanding == 0 or 2 * self.unannounced > self.exclusive)",
        history="rescaled",
    ),
    Mutation(
        where="machines.exchange.result_partition:Subpartition._next",
        line="self._told_backlog = self.backlog",
        instead="self._told_backlog = self.backlog = max(self.backlog - 1, 0)",
        history="unaligned",
    ),
    Mutation(
        where="machines.exchange.watermarks:WatermarkValve._minimum",
        line="return self._heap[0][0] if self._heap else None",
        instead="return self._heap[-1][0] if self._heap else None",
        history="rescaled",
    ),
    Mutation(
        where="machines.attempt.attempt:StreamTask._read_on",
        line="if not has_room and not self._inputs.has_priority:",
        instead="if not has_room:",
        history="unaligned",
    ),
    Mutation(
        where="machines.attempt.attempt:StreamTask._advance_watermark",
        line="if self._checkpoints.defers_firing:",
        instead="if not self._checkpoints.defers_firing:",
        history="simulated",
    ),
    Mutation(
        where="machines.attempt.ending:AttemptState.chain_closed",
        line="return [self._report(self._end, closed.accumulators), EndAttempt()]",
        instead="return [EndAttempt()]",
        history="killed-task-manager",
    ),
    Mutation(
        where="machines.attempt.checkpoints:CheckpointBook.acknowledge",
        line="if not checkpoint.is_durable:",
        instead="if not checkpoint.has_durable_part:",
        history="unaligned",
    ),
    Mutation(
        where="machines.attempt.source:SplitReader.splits_to_request",
        line="count = max(0, ahead - len(self._unread) - self._requested)",
        instead="count = max(0, ahead - len(self._unread))",
        history="unaligned",
    ),
    Mutation(
        where="machines.state.assignment:_Redistribution._keyed",
        line="if self._parallelism == self._old.parallelism:",
        instead="if self._parallelism >= self._old.parallelism:",
        history="rescaled",
    ),
    Mutation(
        where="machines.exchange.checkpoint_barrier_handler:BarrierTracker._count",
        line="return self._complete(pending) if len(pending.arrived) == len(self._open) else []",
        instead="return self._complete(pending)",
        history="at-least-once",
    ),
    Mutation(
        where="machines.checkpoint.pending:CheckpointPlanCalculator.calculate",
        line="to_trigger=tuple(task.attempt for task in running if task.is_source),",
        instead="to_trigger=tuple(task.attempt for task in running),",
        history="savepoints",
    ),
    Mutation(
        where="machines.checkpoint.final_checkpoint:FinalCheckpoint.reach_end_of_data",
        line="return self._want()",
        instead="return False",
        history="regions",
    ),
    Mutation(
        where="machines.scheduling.topology:pipelined_regions",
        line="root[find(task)] = first",
        instead="pass",
        history="regions",
    ),
    Mutation(
        where="machines.slots.slot_sharing:SlotSharing.leave",
        line="request = shared.members.pop(attempt)",
        instead="request = shared.members[attempt]",
        history="declined-and-failed",
    ),
    Mutation(
        where="machines.state.operator_state:_split",
        line="result[(start + turn) % parallelism] += pieces.take(share + (turn < more))",
        instead="result[(start + turn + 1) % parallelism] += pieces.take(share + (turn < more))",
        history="rescaled",
    ),
    Mutation(
        where="machines.exchange.shuffle_environment:NetworkBufferPool.redistribute_buffers",
        line="self._resize(pool, pool.minimum + share)",
        instead="self._resize(pool, pool.minimum)",
        history="crowded",
    ),
    Mutation(
        where="machines.attempt.subtask_checkpoint_coordinator:SubtaskCheckpointCoordinator.on_failed",
        line="return [*released, declined, *_acknowledged(late), *following]",
        instead="return [*released, *_acknowledged(late), *following]",
        history="declined-and-failed",
    ),
    Mutation(
        where="machines.attempt.stages:LatencyStats.report_latency",
        line="self._latencies.setdefault(source, deque(maxlen=HISTORY_SIZE)).append(max(0, now - marker.marked_ms))",
        instead="self._latencies.setdefault(source, deque(maxlen=HISTORY_SIZE)).append(now - marker.marked_ms + 1)",
        history="at-least-once",
    ),
    Mutation(
        where="machines.attempt.time:ProcessingTimers.on_stage_finished",
        line="self.on_due(now)",
        instead="self.on_due(now - 1_000)",
        history="timers",
    ),
    Mutation(
        where="machines.attempt.time:ProcessingTimers.on_restored",
        line="self.is_due = self._uses_processing_time",
        instead="self.is_due = False",
        history="timers",
    ),
)
