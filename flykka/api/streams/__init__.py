"""DataStream and its verbs, and the generator that makes a stream graph of a program.

Not here: the code of operators (`spark_bridge/operators`), SQL (`api/table`).
"""
