"""Views of jobs, plans and traces, as text and as HTML: for notebooks, terminals and pages."""
