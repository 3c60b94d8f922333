"""Groups and offsets as records of `__consumer_offsets`, in Kafka's own format.

    key OffsetCommitKey (group, topic, partition)   value OffsetCommitValue, null: forgotten
    key GroupMetadataKey (group)                    value GroupMetadataValue, null: deleted

Owns: the seam to the log (`OffsetsLog`), and the translation both ways.
Must not know: who decides what is written, timers.
Spec: Kafka's GroupCoordinatorRecordHelpers, in the versions that Kafka 4.3 writes. Every version
is read; the records of consumer groups (`consumer.records`) and share groups (`share.records`) are
passed on as they are, and other kinds of key (newer group types) are left alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.base.errors import ProtocolError
from headrace.base.promise import Promise
from headrace.broker.groups import member as members
from headrace.broker.groups.consumer.group import CONSUMER_KEYS
from headrace.broker.groups.consumer.records import Record
from headrace.broker.groups.group import Group, GroupState
from headrace.broker.groups.instant import Instant
from headrace.broker.groups.offsets import CommittedOffset
from headrace.broker.groups.share.group import SHARE_KEYS
from headrace.broker.internal_log import KeyValue, LogEntry
from headrace.wire.kafka.coordinator_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

NO_TIMESTAMP = -1


class OffsetsLog(Protocol):
    """The topic `__consumer_offsets`, as a coordinator sees it."""

    def partition_count(self) -> int:
        """How many partitions the topic has; 0 while it does not exist."""
        ...

    def append(
        self,
        partition: int,
        records: list[KeyValue],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Promise[int]:
        """An error code; 0 once the records are as durable as the topic demands.

        With a producer, the records belong to its open transaction."""
        ...

    def read(self, partition: int) -> Iterator[LogEntry]:
        """Everything, oldest first: records, and where transactions ended."""
        ...

    def is_local(self, partition: int) -> bool:
        """Whether this broker leads the partition."""
        ...

    def ensure_exists(self) -> Promise[int]:
        """Create the topic if it is missing; an error code."""
        ...


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupEntry:
    group_id: str
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class ConsumerEntry:
    """Something about a consumer group, to be replayed."""

    group_id: str
    record: Record


@dataclass(frozen=True, slots=True)
class ShareEntry:
    """Something about a share group, to be replayed."""

    group_id: str
    record: Record


Entry = OffsetEntry | GroupEntry | ConsumerEntry | ShareEntry


def offset_record(
    group_id: str, topic: str, partition: int, committed: CommittedOffset | None
) -> KeyValue:
    key = encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return key, encode_value(value)


def group_record(group: Group, assignments: Mapping[str, bytes]) -> KeyValue:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=(
            NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms
        ),
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    key = encode_key(GroupMetadataKey(group=group.group_id))
    return key, encode_value(value)


def group_tombstone(group_id: str) -> KeyValue:
    return encode_key(GroupMetadataKey(group=group_id)), None


def read_entry(key: bytes, value: bytes | None) -> Entry | None:
    """What a record says; None for kinds and versions that are not ours to read."""
    try:
        return _read_entry(key, value)
    except ProtocolError:
        return None


def _read_entry(key: bytes, value: bytes | None) -> Entry | None:
    decoded = decode_key(key)
    if isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey):
        committed = decode_value(decoded, value)
        assert committed is None or isinstance(committed, OffsetCommitValue)
        return OffsetEntry(
            decoded.group,
            decoded.topic,
            decoded.partition,
            None if committed is None else _committed(committed),
        )
    if isinstance(decoded, GroupMetadataKey):
        metadata = decode_value(decoded, value)
        assert metadata is None or isinstance(metadata, GroupMetadataValue)
        return GroupEntry(decoded.group, metadata)
    if isinstance(decoded, CONSUMER_KEYS):
        return ConsumerEntry(decoded.group_id, (decoded, decode_value(decoded, value)))
    if isinstance(decoded, SHARE_KEYS):
        return ShareEntry(decoded.group_id, (decoded, decode_value(decoded, value)))
    return None


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )


def restore(group: Group, value: GroupMetadataValue, now: Instant) -> None:
    """Make a fresh group what its last record says; sessions start anew."""
    protocol_name = value.protocol
    for written in value.members:
        member = members.Member(
            written.member_id,
            group_instance_id=written.group_instance_id,
            client_id=written.client_id,
            client_host=written.client_host,
            session_timeout_ms=written.session_timeout,
            rebalance_timeout_ms=(
                written.session_timeout
                if written.rebalance_timeout < 0
                else written.rebalance_timeout
            ),
            protocols=(members.Protocol(protocol_name or "", written.subscription),),
            assignment=written.assignment,
        )
        group.add(member, value.protocol_type)
        group.expect_heartbeat(member, now)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = protocol_name
    group.generation_id = value.generation
    group.leader_id = value.leader if value.leader in group.members else group.leader_id
    group.subscribed_topics = group.compute_subscribed_topics()
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    group.previous_state = group.state
    group.state_since_ms = (
        None if value.current_state_timestamp == NO_TIMESTAMP else value.current_state_timestamp
    )


_GROUP_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def group_error(append_error: int) -> ErrorCode:
    """What members are told when the log refused a group's metadata."""
    error = ErrorCode.of(append_error)
    return _GROUP_ERRORS.get(error, error)


def commit_error(append_error: int) -> ErrorCode:
    """What a committer is told when the log refused its offsets."""
    error = group_error(append_error)
    return (
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error is ErrorCode.UNKNOWN_SERVER_ERROR else error
    )
