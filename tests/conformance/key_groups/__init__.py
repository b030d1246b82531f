"""Area 07: key groups, maximum parallelism, redistribution of state, compatibility of a restore, and selection of
channels.
"""
