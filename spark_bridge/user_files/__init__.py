"""Files, archives and Python packages of users, for functions in Spark's Python workers (Flink's DistributedCache).

What is registered is copied at once to a folder of this process, under a name made of its content: a *unit*. So a job
has the files as they were when they were registered, a mistake shows on the user's line, and two jobs share a unit or
have two, whatever their files are called. A unit is distributed with the first job that wants it and withdrawn with the
last one.

How Spark distributes a unit: `SparkContext.addFile`, or `addArchive` for folders, which each executor fetches once,
before its next task. The alternatives were tried. `addPyFile` is `addFile` and an entry in a list, for all jobs of the
context, and refuses another file of the same name; `SparkSession.addArtifacts` is the same in a classic session, where
PySpark turns the isolation of artifacts off. A broadcast variable can be destroyed, but would be in the heap. Spark has
no call that takes a file back, so it is taken off the lists of the context by hand. On two cores 200 MB took 0.24 s to
add, and a job that has no files pays nothing. Folders travel as tar files that are not compressed.
"""
