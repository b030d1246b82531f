"""HTML that escapes by default: elements, tables, small charts, one stylesheet, self-contained pages.

The content of pages is defined elsewhere.
"""
