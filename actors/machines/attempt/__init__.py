"""The life of an execution attempt on the data plane: which work its engine is given, in which order, and why."""
