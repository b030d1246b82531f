"""What a program is written down with, DataStream and its verbs, and how a stream graph is made of it."""
