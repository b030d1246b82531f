"""Messages of clients, masters and TaskManagers: jobs, slots, registration, leadership.

Not here: messages of Tasks (`tasks`), and queries (`monitoring`).
"""
