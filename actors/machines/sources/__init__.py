"""Sources on the JobMaster's side: discovery and assignment of splits."""
