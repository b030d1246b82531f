"""How a checkpoint comes to be complete: the coordinator, pending and completed checkpoints, what is retained."""
