"""Area 05: the tables of states, the moves of one attempt, the life of a job, the life of a task."""
