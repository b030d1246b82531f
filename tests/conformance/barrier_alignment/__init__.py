"""Area 02: checkpoint barriers at the input of a task."""
