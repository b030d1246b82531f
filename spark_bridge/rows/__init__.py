"""Rows at rest: in files and on the file systems that Spark reaches."""
