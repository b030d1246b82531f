"""The Spark session and its JVM: how they are started, adopted, archived and interrupted.

Not here: jobs and their rows.
"""
