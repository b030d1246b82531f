"""`flykka ha`: what jobs have left in a store of high availability."""
