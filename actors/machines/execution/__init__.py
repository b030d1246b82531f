"""What a Task thinks with: the life of one execution attempt, its stages in flight, its reader and its snapshots."""
