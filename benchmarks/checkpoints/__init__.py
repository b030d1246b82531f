"""Measures the speed of the control plane: a checkpoint of many tasks whose stages answer at once."""
