"""Displays for IPython of objects whose packages contain no HTML.

Not here: IPython itself, which is never imported; objects with their own `_repr_html_`.
"""
