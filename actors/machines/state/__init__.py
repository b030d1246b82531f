"""State of subtasks: key groups, state handles, redistribution when the parallelism changes."""
