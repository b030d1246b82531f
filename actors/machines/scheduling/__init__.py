"""Where an attempt runs and what follows when it fails: slots, restart strategies, failover regions."""
