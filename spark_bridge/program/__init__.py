"""A program as it is written: prototypes, trials, user functions and the code of operators."""
