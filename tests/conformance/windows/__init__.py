"""Area 08: window assigners, merging windows, triggers and the window operator."""
