"""`flykka trace`: what actors did, read from a trace. No Spark is needed for it, and none is loaded."""
