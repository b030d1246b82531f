"""What belongs to functions on the JobMaster's side: operator coordinators and global aggregates."""
