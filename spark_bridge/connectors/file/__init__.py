"""Files as a source and as a sink.

File systems and formats that other code uses too are in `rows`.
"""
