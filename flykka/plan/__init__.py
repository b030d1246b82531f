"""The three graphs of a program, for those who want to see them before the job runs."""
