"""The port to leader election and to the values that outlive a leader, and its implementation in memory."""
