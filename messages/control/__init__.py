"""Messages of clients, masters and TaskManagers: jobs, slots, registration, leadership."""
