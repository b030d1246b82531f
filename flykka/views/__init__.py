"""Views of jobs, plans and traces, as text and as HTML, for notebooks, terminals and pages.

Not here: messages to actors; a view gets the values that it shows.
"""
