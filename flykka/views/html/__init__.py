"""HTML that escapes by default: elements, tables, small charts, one stylesheet, self-contained pages.

Not here: the content of pages.
"""
