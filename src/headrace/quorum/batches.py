"""Entries of a quorum's log as the core sees them: whole record batches.

Owns: cutting fetched bytes into batches and judging them, the two control batches that the core
itself writes, and finding a voters record in one. Must not know: data records, files.
Spec: Kafka's record batch v2; LeaderChange and Voters control records (KIP-595, KIP-853).

Invariants: a batch is appended whole or not at all; offsets go on without a gap, epochs never
go down.
"""

from typing import NamedTuple

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.voters import KRAFT_VERSION_MAX, VoterSet
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.kraft_version_record import KraftVersionRecord
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage
from headrace.wire.kafka.messages.leader_change_message import Voter as LeaderChangeVoter
from headrace.wire.kafka.messages.voters_record import VotersRecord
from headrace.wire.kafka.record_batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    crc_of,
    stamp,
)
from headrace.wire.kafka.records import build_batch, read_records


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    voters: VoterSet | None
    """The set that this batch brings, if it holds a voters record."""
    data: bytes


def cut_batches(
    records: bytes | memoryview, end_offset: int, epoch_min: int, epoch_max: int
) -> list[Batch]:
    """The whole, sound batches that continue a log which ends at `end_offset`.

    What follows the first batch that is cut off, damaged or out of place is left out: the next
    fetch asks for it again.
    """
    batches: list[Batch] = []
    position, size = 0, len(records)
    while size - position >= HEADER_BYTES:
        fields = HEADER.unpack_from(records, position)
        base_offset, batch_length, epoch, magic, crc, attributes, last_offset_delta = fields[:7]
        batch_size = batch_length + LENGTH_OVERHEAD_BYTES
        if magic != MAGIC or batch_size < HEADER_BYTES or position + batch_size > size:
            break
        if (
            base_offset != end_offset
            or not epoch_min <= epoch <= epoch_max
            or last_offset_delta < 0
        ):
            break
        if crc_of(records, position, batch_size) != crc:
            break
        data = bytes(records[position : position + batch_size])
        end_offset, epoch_min = base_offset + last_offset_delta + 1, epoch
        voters = voters_in(data) if attributes & CONTROL_BIT else None
        batches.append(Batch(base_offset, end_offset, epoch, voters, data))
        position += batch_size
    return batches


def stamped(batch: bytearray, base_offset: int, epoch: int) -> Batch:
    """A proposal as an entry: the bytes are the leader's from here on."""
    fields = HEADER.unpack_from(batch)
    is_control = bool(batch[ATTRIBUTES_AT + 1] & CONTROL_BIT)
    stamp(batch, 0, base_offset, epoch)
    data = bytes(batch)
    voters = voters_in(data) if is_control else None
    return Batch(base_offset, base_offset + fields[6] + 1, epoch, voters, data)


def voters_in(batch: bytes | memoryview) -> VoterSet | None:
    """The newest voter set in a control batch."""
    voters = None
    for record in read_records(batch):
        if decode_control_key(record.key or b"") is ControlRecordType.KRAFT_VOTERS:
            message = decode_control_value(ControlRecordType.KRAFT_VOTERS, record.value or b"")
            assert isinstance(message, VotersRecord)
            voters = VoterSet.from_record(message)
    return voters


def leader_change_batch(
    leader_id: int,
    voters: VoterSet,
    granting: list[ReplicaKey],
    now_ms: int,
    with_voters: bool = False,
) -> bytearray:
    """The entry with which a leader begins its epoch; the very first brings the voters too."""
    # Version 0, which names no directories: Kafka writes no other, and its tools read no other.
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[_named(key) for key in voters.keys],
        granting_voters=[_named(key) for key in granting],
    )
    records: list[tuple[ControlRecordType, Message, int]] = [
        (ControlRecordType.LEADER_CHANGE, message, 0)
    ]
    if with_voters:
        version = KraftVersionRecord(kraft_version=KRAFT_VERSION_MAX)
        records.append((ControlRecordType.KRAFT_VERSION, version, 0))
        records.append((ControlRecordType.KRAFT_VOTERS, voters.to_record(), 0))
    return control_batch(records, now_ms)


def voters_batch(voters: VoterSet, now_ms: int) -> bytearray:
    return control_batch([(ControlRecordType.KRAFT_VOTERS, voters.to_record(), 0)], now_ms)


def _named(key: ReplicaKey) -> LeaderChangeVoter:
    return LeaderChangeVoter(voter_id=key.id)


def control_batch(
    records: list[tuple[ControlRecordType, Message, int]],
    now_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Of messages with their versions."""
    return build_batch(
        [
            (encode_control_key(type_), encode_control_value(message, version), (), now_ms)
            for type_, message, version in records
        ],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        is_control=True,
    )
