"""Displays that IPython is given for objects of packages that know no HTML; IPython itself is never imported."""
