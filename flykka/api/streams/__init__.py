"""DataStream and its operations, and the generator that turns a program into a stream graph.

Not here: the code of operators (`spark_bridge/operators`), SQL (`api/table`).
"""
