"""Area 05: the tables of states, the transitions of one attempt, the lifecycle of a job and of a task."""
