"""The API of programs: the environment, its settings and the streams."""
