"""The share coordinator: what became of the records of share-partitions, in `__share_group_state`.

key             where a share-partition's state lives
records         snapshots and updates, in Kafka's format
batches         two lists of state batches made one
share_state     one share-partition's state: decide and replay
shards          the partitions that are led here, loading and unloading
coordinator     requests 83 to 87 answered
routing         `persister.Persister`: here at once, elsewhere by request
"""
