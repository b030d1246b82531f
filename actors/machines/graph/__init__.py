"""From the program to its execution: StreamGraph, JobGraph, ExecutionGraph."""
