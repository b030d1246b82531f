"""How fast actors are, beside plain Pykka's in the same run."""
