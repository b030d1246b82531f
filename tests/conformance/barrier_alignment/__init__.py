"""Area 02: barriers at the input of one task."""
