"""The CheckpointCoordinator, its CheckpointCoordinatorDeActivator, and the parts that perform effects for them.

Not here: when a checkpoint begins or is complete (`machines/checkpoint`), and its files (`checkpoint_storage`).
"""
