"""Share groups (KIP-932): members that read partitions together, and which partitions are ready.

    member          one member; what it asks and is answered
    records         a group in Kafka's record formats
    group           the state, and `replay`, the only way in which it changes
    partitions      which share-partitions have a state: initialising, initialised, being deleted
    assignor        who reads what
    heartbeat       how members join, live and leave
    offsets         where a group begins: altered, deleted
    lag             how far a group is behind
    hosting         a group in its place, changed only by what the log keeps
    states          the persister asked, and what its answers change
    coordination    heartbeats, silent members, topics that come and go
    offset_requests what administrators ask

Delivery and acknowledgement are elsewhere (`broker.share`).
"""
