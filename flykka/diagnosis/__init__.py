"""Why a job does not go on: its actors are asked, and what they report is put into one answer."""
