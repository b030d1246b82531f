"""THE FRONT DOOR: Flink-style jobs as Pykka actors, with their data on Spark."""
