"""Views of jobs, plans and traces, as text and as HTML, for notebooks, terminals and pages.

Not here: messages to actors. The caller passes the values to show.
"""
