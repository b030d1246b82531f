"""Windows of event time: arithmetic on integers, and what an operator of windows remembers."""
