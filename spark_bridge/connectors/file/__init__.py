"""Files as a source and as a sink.

Not here: file systems and formats that other code uses too (`rows`).
"""
