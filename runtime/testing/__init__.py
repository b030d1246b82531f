"""The public test kit: probes, a clock moved by hand, a seeded dispatcher, and faults placed by message."""
