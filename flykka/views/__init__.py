"""Views of jobs, plans and traces, as text and as HTML, for notebooks, terminals and pages.

A view sends no messages to actors; it gets the values that it shows.
"""
