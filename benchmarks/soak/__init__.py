"""Measures whether memory, files, threads and times grow in a long run of one job."""
