"""Telling partition leaders how a transaction ended: markers out, again and again until they hold.

Owns: which partitions of a prepared transaction still lack their marker, and when to ask again.
Must not know: where leaders are or how they are reached (`MarkerPeers`), the coordinator's log.
Spec: Kafka's TransactionMarkerChannelManager and TransactionMarkerRequestCompletionHandler.

Invariants: a transaction completes only when every partition has its marker or is gone for good;
a coordinator that lost its partition sends nothing more (`is_current`); what a newer
coordinator or producer epoch overtook is left alone, for it is theirs to complete.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from headrace.base.clock import Timers
from headrace.base.promise import Promise
from headrace.broker.transactions.metadata import TopicPartition, TransactionMetadata
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

RETRY_BACKOFF_MS = 50

_OVERTAKEN = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
)


class MarkerPeers(Protocol):
    """The leaders of partitions, this broker among them."""

    def exists(self, topic: str, index: int) -> bool:
        """Whether the committed metadata knows the partition."""
        ...

    def leader_of(self, topic: str, index: int) -> int | None:
        """The node that leads it now, None while nobody does."""
        ...

    def write_markers(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> Promise[WriteTxnMarkersResponse]: ...


class Sending:
    """The markers of one prepared transaction, on their way."""

    __slots__ = (
        "_coordinator_epoch",
        "_is_current",
        "_metadata",
        "_missing",
        "_on_written",
        "_peers",
        "_timers",
        "_waiting",
    )

    def __init__(
        self,
        metadata: TransactionMetadata,
        coordinator_epoch: int,
        peers: MarkerPeers,
        timers: Timers,
        is_current: Callable[[], bool],
        on_written: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._coordinator_epoch = coordinator_epoch
        self._peers = peers
        self._timers = timers
        self._is_current = is_current
        self._on_written = on_written
        self._missing = set(metadata.partitions)
        self._waiting = 0

    def send(self) -> None:
        """Ask every leader that still owes a marker; `on_written` once none does."""
        if not self._is_current():
            return
        self._missing = {key for key in self._missing if self._peers.exists(*key)}
        by_leader: dict[int, list[TopicPartition]] = {}
        for key in sorted(self._missing):
            leader = self._peers.leader_of(*key)
            if leader is not None:
                by_leader.setdefault(leader, []).append(key)
        self._waiting = len(by_leader)
        if not by_leader:
            self._on_round_end()
        for leader, keys in by_leader.items():
            self._ask(leader, keys)

    def _ask(self, leader: int, keys: list[TopicPartition]) -> None:
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=self._metadata.producer_id,
                    producer_epoch=self._metadata.producer_epoch,
                    transaction_result=self._metadata.is_commit,
                    topics=_topics(keys),
                    coordinator_epoch=self._coordinator_epoch,
                    transaction_version=self._metadata.client_version,
                )
            ]
        )
        self._peers.write_markers(leader, request).then(self._on_answer)

    def _on_answer(self, answer: Promise[WriteTxnMarkersResponse]) -> None:
        if answer.error is None:
            for key, code in _outcomes(answer.value()):
                error = ErrorCode.of(code)
                if error is ErrorCode.NONE:
                    self._missing.discard(key)
                elif error in _OVERTAKEN:
                    # A newer coordinator has spoken for this producer: nothing is left to us.
                    self._is_current = _never
        self._waiting -= 1
        if self._waiting == 0:
            self._on_round_end()

    def _on_round_end(self) -> None:
        if not self._is_current():
            return
        if self._missing:
            self._timers.call_later(RETRY_BACKOFF_MS, self.send)
        else:
            self._on_written()


def _never() -> bool:
    return False


def _topics(keys: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in keys:
        by_topic.setdefault(topic, []).append(index)
    return [
        WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic.items()
    ]


def _outcomes(response: WriteTxnMarkersResponse) -> Iterable[tuple[TopicPartition, int]]:
    for marker in response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                yield (topic.name, partition.partition_index), partition.error_code
