"""The Spark session and its JVM: started, adopted, archived, interrupted."""
