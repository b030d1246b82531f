"""From the program to the JobGraph: the StreamGraph, its chains, operator ids, and the plan as JSON."""
