"""Area 06: from a program to job vertices and their wiring."""
