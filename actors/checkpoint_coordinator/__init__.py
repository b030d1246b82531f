"""The CheckpointCoordinator, its CheckpointCoordinatorDeActivator and its parts."""
