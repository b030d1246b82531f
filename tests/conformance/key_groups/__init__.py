"""Area 07: key groups, maximum parallelism, redistribution of state, what a restore allows, selection of channels."""
