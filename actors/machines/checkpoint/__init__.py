"""The machine of checkpoints: the coordinator, pending and completed checkpoints, retention."""
