"""The state machine of checkpoints: their triggers, pending and completed ones, retention.

Not here: the part of a single task (`attempt/subtask_checkpoint_coordinator`).
"""
