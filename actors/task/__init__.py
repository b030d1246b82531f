"""The Task of one execution attempt, and the Bridge that runs its commands on an engine.

Not here: decisions (`machines/attempt`) and engines with rows (`spark_bridge/attempt`).
"""
