"""The machines of a bridge: the life of an execution attempt on the data plane, what its engine is given and when."""
