"""Sources: where batches come from, split by split, at a position that a checkpoint can keep."""
