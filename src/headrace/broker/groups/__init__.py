"""Consumer groups: who shares a topic's partitions, and how far each group has read.

joining · session     the conversation: join, sync, heartbeat, leave
rebalance             from one generation to the next
group · member        who is in a group, and in which state it is
offsets               committed offsets and when they expire
store                 both as records of `__consumer_offsets`, in Kafka's format
coordinator           routes by group id, loads, wakes groups at their deadlines
"""

from headrace.broker.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
