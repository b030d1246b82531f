"""Area 08: the watermark valve, and the generators of watermarks."""
