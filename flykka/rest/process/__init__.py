"""The process that serves: its threads, its memory, its log. No actor is asked."""
