"""Displays that IPython is given for objects of packages that know no HTML.

Not here: IPython itself, which is never imported; objects with a `_repr_html_` of their own.
"""
