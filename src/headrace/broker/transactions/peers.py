"""Other brokers as transactions see them: leaders that want markers, coordinators that verify.

Owns: `ClusterPeers` and `ClusterVerifier`, which ask here or there by the committed metadata.
Must not know: what a marker or a verification does, connections (`Peers`).
Spec: Kafka's TransactionMarkerChannelManager and AddPartitionsToTxnManager (KIP-890).
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.transactions.metadata import TopicPartition
from headrace.broker.transactions.verification import LocalVerifier, Verified
from headrace.broker.transactions.writing import write_markers
from headrace.cluster.image import NO_LEADER, TRANSACTIONS_TOPIC
from headrace.quorum.peers import Peers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.wire.kafka.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class ClusterPeers:
    """`MarkerPeers` of a cluster: this broker's own partitions at once, others by request."""

    def __init__(self, broker: "Broker", peers: Peers) -> None:
        self._broker = broker
        self._peers = peers

    def exists(self, topic: str, index: int) -> bool:
        image = self._broker.image.topics_by_name.get(topic)
        return image is not None and index < len(image.partitions)

    def leader_of(self, topic: str, index: int) -> int | None:
        return _leader_of(self._broker, topic, index)

    def write_markers(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> Promise[WriteTxnMarkersResponse]:
        if node_id == self._broker.node_id:
            return write_markers(self._broker, request)
        answer: Promise[WriteTxnMarkersResponse] = Promise()

        def on_answer(response: Message | None, _refused: bool) -> None:
            # Without an answer no partition has its marker, as far as anybody can tell.
            known = isinstance(response, WriteTxnMarkersResponse)
            answer.resolve(response if known else WriteTxnMarkersResponse())  # type: ignore[arg-type]

        self._peers.send(node_id, request, on_answer)
        return answer


class ClusterVerifier:
    """`Verifier` of a cluster: the broker that leads the id's partition of the state is asked."""

    def __init__(self, broker: "Broker", peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._local = LocalVerifier(broker)

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Promise[Verified]:
        broker = self._broker
        if not adds and not broker.transactions.settings.verifies_partitions:
            return Promise.resolved(dict.fromkeys(partitions, ErrorCode.NONE))
        shard = broker.transactions.partition_for(transactional_id)
        coordinator = _leader_of(broker, TRANSACTIONS_TOPIC, shard)
        if coordinator == broker.node_id:
            return self._local.ask(
                transactional_id, producer_id, producer_epoch, partitions, adds=adds
            )
        if coordinator is None:
            unknown = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Promise.resolved(dict.fromkeys(partitions, unknown))
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not adds,
            topics=_topics(partitions),
        )
        verified: Promise[Verified] = Promise()

        def on_answer(response: Message | None, _refused: bool) -> None:
            verified.resolve(_verdicts(response, partitions))

        self._peers.send(
            coordinator, AddPartitionsToTxnRequest(transactions=[transaction]), on_answer
        )
        return verified


def _leader_of(broker: "Broker", topic: str, index: int) -> int | None:
    image = broker.image.topics_by_name.get(topic)
    if image is None or index >= len(image.partitions):
        return None
    leader = image.partitions[index].leader
    return None if leader == NO_LEADER else leader


def _topics(partitions: Collection[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    by_name: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_name.setdefault(topic, []).append(index)
    return [
        AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_name.items()
    ]


def _verdicts(response: Message | None, partitions: Collection[TopicPartition]) -> Verified:
    """What was not answered may be asked again."""
    verdicts: Verified = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
    if isinstance(response, AddPartitionsToTxnResponse):
        if response.error_code:
            return dict.fromkeys(partitions, ErrorCode.of(response.error_code))
        for transaction in response.results_by_transaction:
            for topic in transaction.topic_results:
                for row in topic.results_by_partition:
                    key = (topic.name, row.partition_index)
                    verdicts[key] = ErrorCode.of(row.partition_error_code)
    return verdicts
