"""Area 08: assigners, merging windows, triggers and the operator of windows."""
