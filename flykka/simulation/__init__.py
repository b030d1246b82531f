"""A whole cluster on one thread, in virtual time: the actors are the product's, the rows are real and few.

`simulate(seed, settings)` draws a job, a schedule and faults from the seed, lets everything happen, and says what was
violated. Nothing here knows of Spark.
"""
