"""DataStream and its verbs, and the generator that makes a stream graph of a program."""
