"""Area 05: the tables of states, the transitions of an attempt, and the lifecycles of a job and of a task."""
