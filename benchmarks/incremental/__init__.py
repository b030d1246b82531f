"""TPC-H and TPC-DS as streams of changes: correctness at every step, and the cost of a step."""
