"""A submitted job as its client sees it: what is told of it, what it can be asked, what it leaves to continue from."""
