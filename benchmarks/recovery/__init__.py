"""Measures the cost of failures: rows lost or doubled, and the time until the work goes on."""
