"""Displays that IPython uses for objects of packages without HTML.

IPython itself is never imported. Objects with their own `_repr_html_` need nothing here.
"""
