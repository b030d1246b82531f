"""HTML that escapes by default: elements, tables, small pictures, one stylesheet, pages that need nothing else.

Not here: what a page shows.
"""
