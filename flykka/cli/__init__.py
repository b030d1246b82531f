"""The command line: `flykka run`, `flykka trace`."""
