"""Messages of checkpoints, and the values that a completed one consists of."""
