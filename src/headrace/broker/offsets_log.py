"""Where committed offsets and groups live: `__consumer_offsets`, as the groups' seam sees it.

Owns: how that topic is created. Must not know: what its records mean.
"""

from typing import TYPE_CHECKING

from headrace.broker.internal_log import InternalLog, TopicPlan
from headrace.cluster.image import OFFSETS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class PartitionOffsetsLog(InternalLog):
    """`groups.store.OffsetsLog` over this broker's partitions."""

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker, OFFSETS_TOPIC)

    def plan(self) -> TopicPlan:
        config = self._broker.config
        return TopicPlan(
            partition_count=int(config["offsets.topic.num.partitions"]),
            replication_factor=int(config["offsets.topic.replication.factor"]),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            },
        )
