"""Files as a source and as a sink.

Not here: file systems and formats that others use too (`rows`).
"""
