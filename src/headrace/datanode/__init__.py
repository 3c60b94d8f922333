"""The DataNode: replicas of blocks, the write pipeline, reads, recovery and reports."""
