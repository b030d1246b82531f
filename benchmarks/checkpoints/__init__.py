"""Measures the speed of the control plane: checkpoints of many tasks whose stages finish at once."""
