"""The state machine of checkpoints: their triggers, pending and completed checkpoints, and retention.

Not here: a single task's part in a checkpoint (`attempt/subtask_checkpoint_coordinator`).
"""
