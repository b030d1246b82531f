"""The Spark session and its JVM: started, adopted, archived, interrupted.

Jobs and their rows are not handled here.
"""
