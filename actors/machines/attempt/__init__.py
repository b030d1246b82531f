"""The machines of a Task: the life of one execution attempt, its stages in flight, its reader and its snapshots."""
