"""Props and state of actors as data."""
