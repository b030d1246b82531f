"""Displays that IPython uses for objects of packages without HTML.

Not here: IPython itself, which is never imported; objects with their own `_repr_html_`.
"""
