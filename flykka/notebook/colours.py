"""The colours of dots, bars and lines: each is legible on a light page and on a dark one."""

from __future__ import annotations

GREEN, BLUE, AMBER, RED, GREY = "#30a46c", "#3e8ed0", "#f0a020", "#e5484d", "#8f8f8f"
