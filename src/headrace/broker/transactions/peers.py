"""The leaders to which markers go, as the committed metadata names them.

Owns: `LocalPeers`, for a cluster whose every partition this broker leads. A cluster of several
brokers gives the coordinator another `MarkerPeers`, which sends to the others.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.transactions.writing import write_markers
from headrace.wire.kafka.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class LocalPeers:
    """`MarkerPeers` of a broker that leads everything."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def exists(self, topic: str, index: int) -> bool:
        image = self._broker.image.topics_by_name.get(topic)
        return image is not None and index < len(image.partitions)

    def leader_of(self, topic: str, index: int) -> int | None:
        image = self._broker.image.topics_by_name.get(topic)
        if image is None or index >= len(image.partitions):
            return None
        leader = image.partitions[index].leader
        return leader if leader == self._broker.node_id else None

    def write_markers(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> Promise[WriteTxnMarkersResponse]:
        assert node_id == self._broker.node_id, "there is one broker"
        return write_markers(self._broker, request)
