"""How fast runs are recorded, replayed and simulated, and how large a recording is."""
