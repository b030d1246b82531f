"""The file of a trace: its format, and its reader."""
