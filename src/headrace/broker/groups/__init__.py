"""Consumer groups: who shares a topic's partitions, and how far each group has read.

joining · session     the conversation: join, sync, heartbeat, leave
rebalance             from one generation to the next
group · member        who is in a group, and in which state it is
offsets               committed offsets and when they expire
store                 both as records of `__consumer_offsets`, in Kafka's format
shards                which group lives where; loading, and waking groups at their deadlines
coordinator           the door: routes by group id
consumer              the same for groups of the new protocol (KIP-848), and the ways between both
"""

from headrace.broker.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
