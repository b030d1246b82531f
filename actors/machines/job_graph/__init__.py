"""Translates a program into the JobGraph: the StreamGraph, its chains, operator ids, and the plan as JSON.

Not here: the API methods of programs (`flykka/api/streams`), and the code of operators (`spark_bridge`).
"""
