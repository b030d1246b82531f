"""DataStream and its operations, and the generator that turns a program into a stream graph.

The code of operators is in `spark_bridge/operators`, SQL in `api/table`.
"""
