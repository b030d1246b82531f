"""Displays for IPython of objects whose packages do not know HTML.

IPython itself is never imported here. Other objects have their own `_repr_html_`.
"""
