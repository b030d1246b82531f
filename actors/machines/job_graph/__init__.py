"""From the program to the JobGraph: the StreamGraph, its chains, operator ids, and the plan as JSON.

Not here: methods of programs (`flykka/api/streams`), and code of operators (`spark_bridge`).
"""
