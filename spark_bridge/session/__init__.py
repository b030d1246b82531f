"""The Spark session and its JVM: started, adopted, archived, interrupted.

Not here: jobs and their rows.
"""
