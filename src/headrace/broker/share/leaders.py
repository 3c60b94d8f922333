"""Who leads a partition instead of us, as answers tell it (KIP-951).

Owns: finding the leader and its endpoint in the image. Must not know: why somebody asks.
"""

from typing import TYPE_CHECKING

from headrace.broker.reachable import reachable_brokers
from headrace.broker.share.sessions import PartitionKey
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_share_fetch import Endpoint

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Leaders:
    """Collects the endpoints that one answer has to name."""

    __slots__ = ("_broker", "_listener_name", "endpoints")

    def __init__(self, broker: "Broker", listener_name: str) -> None:
        self._broker = broker
        self._listener_name = listener_name
        self.endpoints: dict[int, Endpoint] = {}

    def of(self, key: PartitionKey, error: int) -> tuple[int, int] | None:
        """Leader id and epoch, if `error` says that we don't lead."""
        image = self._broker.image
        topic = image.topics_by_id.get(key[0])
        if error not in _MOVED or topic is None or key[1] >= len(topic.partitions):
            return None
        described = topic.partitions[key[1]]
        for reachable in reachable_brokers(self._broker, self._listener_name):
            if reachable.broker_id == described.leader:
                self.endpoints[reachable.broker_id] = Endpoint(
                    reachable.broker_id, reachable.host, reachable.port, reachable.rack
                )
        return described.leader, described.leader_epoch
