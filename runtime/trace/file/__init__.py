"""The file of a trace: its format, what is packed for it, and its reader."""
