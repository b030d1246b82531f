"""The Task of one execution attempt, and the bridge between it and its engine."""
