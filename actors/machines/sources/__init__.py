"""Sources on the JobMaster's side: discovery, assignment and alignment of splits.

Not here: a task's unread splits (`attempt/source`), and the discovery itself (`spark_bridge/connectors`).
"""
