"""The CheckpointCoordinator, its CheckpointCoordinatorDeActivator, and the classes that carry out their effects.

Not here: when a checkpoint starts or is complete (`machines/checkpoint`), and its files (`checkpoint_storage`).
"""
