"""Tables: SQL texts become streams."""
