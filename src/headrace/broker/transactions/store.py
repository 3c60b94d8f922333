"""Transactions as records of `__transaction_state`, in Kafka's own format.

    key    type int16 = 0 | TransactionLogKey (transactional id)
    value  version int16 | TransactionLogValue, null: the id is forgotten

Owns: the topic's creation, the seam to it (`StateLog`) and the translation both ways.
Must not know: who decides what is written. Spec: Kafka's TransactionLog; version 1 (flexible)
since `transaction.version` 1, version 0 before; both are read.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Protocol

from headrace.base.errors import ProtocolError
from headrace.base.promise import Promise
from headrace.broker.internal_log import InternalLog, KeyValue, LogEntry, TopicPlan
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import BY_NUMBER, TransactionState
from headrace.cluster.image import TRANSACTIONS_TOPIC
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_PREFIX = Struct(">h")
_KEY_TYPE = 0
_FLEXIBLE_VERSION = 1


class StateLog(Protocol):
    """The topic `__transaction_state`, as the coordinator sees it."""

    def partition_count(self) -> int: ...

    def append(self, partition: int, records: Sequence[KeyValue]) -> Promise[int]:
        """An error code; 0 once the records are as durable as the topic demands."""
        ...

    def read(self, partition: int) -> Iterator[LogEntry]: ...

    def is_local(self, partition: int) -> bool: ...

    def leader_epoch(self, partition: int) -> int: ...

    def ensure_exists(self) -> Promise[int]: ...


class PartitionStateLog(InternalLog):
    """`StateLog` over this broker's partitions."""

    def __init__(self, broker: "Broker") -> None:
        super().__init__(broker, TRANSACTIONS_TOPIC)

    @property
    def read_bytes(self) -> int:
        return int(self._broker.config["transaction.state.log.load.buffer.size"])

    def plan(self) -> TopicPlan:
        config = self._broker.config
        return TopicPlan(
            partition_count=int(config["transaction.state.log.num.partitions"]),
            replication_factor=int(config["transaction.state.log.replication.factor"]),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
            },
        )


def state_record(metadata: TransactionMetadata, server_version: int) -> KeyValue:
    """The record that makes a state true. `server_version`: the feature's level in the cluster."""
    version = _FLEXIBLE_VERSION if server_version > 0 else 0
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=_partitions(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
    )
    if version >= _FLEXIBLE_VERSION:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    out = bytearray(_PREFIX.pack(version))
    encode_into(value, version, out)
    return _key(metadata.transactional_id), bytes(out)


def tombstone(transactional_id: str) -> KeyValue:
    return _key(transactional_id), None


def read_state(key: bytes, value: bytes | None) -> tuple[str, TransactionMetadata | None] | None:
    """The id and its last state, None for a tombstone; None for kinds that are not ours to read."""
    try:
        (key_type,) = _PREFIX.unpack_from(key)
        if key_type != _KEY_TYPE:
            return None
        transactional_id = decode(TransactionLogKey, key, 0, _PREFIX.size)[0].transactional_id
        if value is None:
            return transactional_id, None
        (version,) = _PREFIX.unpack_from(value)
        stored = decode(TransactionLogValue, value, version, _PREFIX.size)[0]
    except (ProtocolError, StructError):
        return None
    return transactional_id, _metadata(transactional_id, stored)


def _key(transactional_id: str) -> bytes:
    out = bytearray(_PREFIX.pack(_KEY_TYPE))
    encode_into(TransactionLogKey(transactional_id=transactional_id), 0, out)
    return bytes(out)


def _partitions(metadata: TransactionMetadata) -> list[PartitionsSchema] | None:
    if metadata.state is TransactionState.EMPTY:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(index)
    return [
        PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()
    ]


def _metadata(transactional_id: str, stored: TransactionLogValue) -> TransactionMetadata:
    state = BY_NUMBER.get(stored.transaction_status)
    if state is None:
        raise ProtocolError(f"unknown transaction state {stored.transaction_status}")
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        timeout_ms=stored.transaction_timeout_ms,
        producer_epoch=stored.producer_epoch,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        state=state,
        partitions=frozenset(
            (topic.topic, index)
            for topic in stored.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_timestamp_ms=stored.transaction_start_timestamp_ms,
        last_update_timestamp_ms=stored.transaction_last_update_timestamp_ms,
        client_version=stored.client_transaction_version,
    )
