"""A long run of one job: whether memory, files, threads and times grow."""
