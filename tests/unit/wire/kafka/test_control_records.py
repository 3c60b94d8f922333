"""Control records: the batches that Kafka 4.3.0 writes for markers and leader changes."""

import pytest

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.control_records import (
    ControlRecordType,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from headrace.wire.kafka.messages.end_txn_marker import EndTxnMarker
from headrace.wire.kafka.messages.kraft_version_record import KraftVersionRecord
from headrace.wire.kafka.messages.leader_change_message import LeaderChangeMessage, Voter
from headrace.wire.kafka.messages.snapshot_footer_record import SnapshotFooterRecord
from headrace.wire.kafka.messages.snapshot_header_record import SnapshotHeaderRecord
from headrace.wire.kafka.messages.voters_record import VotersRecord
from headrace.wire.kafka.record_batch import read_header
from headrace.wire.kafka.records import Record, build_batch, read_records

END_TXN_BATCH = (
    "000000000000000000000042ffffffff026491a23300300000000000000000000003e80000000000"
    "0003e800000000000000070002ffffffff000000012000000008000000010c00000000000d00"
)
LEADER_CHANGE_BATCH = (
    "00000000000000050000004a00000003024a7324f200200000000000000000000003e80000000000"
    "0003e8ffffffffffffffffffffffffffff000000013000000008000000021c000000000001020000"
    "000100010000"
)
LEADER_CHANGE = LeaderChangeMessage(leader_id=1, voters=[Voter(voter_id=1)])


def control_record(batch: str) -> tuple[ControlRecordType, bytes]:
    (record,) = read_records(bytes.fromhex(batch))
    assert record.key is not None
    assert record.value is not None
    return decode_control_key(record.key), record.value


def test_a_commit_marker() -> None:
    type_, value = control_record(END_TXN_BATCH)
    assert type_ is ControlRecordType.COMMIT
    marker = EndTxnMarker(coordinator_epoch=13)
    assert decode_control_value(type_, value) == marker
    header = read_header(bytes.fromhex(END_TXN_BATCH))
    assert header.is_control
    assert header.is_transactional
    batch = build_batch(
        [Record(0, 1000, encode_control_key(type_), encode_control_value(marker))],
        producer_id=7,
        producer_epoch=2,
        is_transactional=True,
        is_control=True,
    )
    assert batch.hex() == END_TXN_BATCH


def test_a_leader_change() -> None:
    type_, value = control_record(LEADER_CHANGE_BATCH)
    assert type_ is ControlRecordType.LEADER_CHANGE
    assert decode_control_value(type_, value) == LEADER_CHANGE
    batch = build_batch(
        [Record(5, 1000, encode_control_key(type_), encode_control_value(LEADER_CHANGE))],
        base_offset=5,
        leader_epoch=3,
        is_control=True,
    )
    assert batch.hex() == LEADER_CHANGE_BATCH


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (ControlRecordType.ABORT, EndTxnMarker(coordinator_epoch=1)),
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=9)),
        (ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord()),
        (ControlRecordType.KRAFT_VERSION, KraftVersionRecord(kraft_version=1)),
        (ControlRecordType.KRAFT_VOTERS, VotersRecord()),
    ],
)
def test_round_trips(type_: ControlRecordType, message: object) -> None:
    assert decode_control_key(encode_control_key(type_)) is type_
    assert decode_control_value(type_, encode_control_value(message)) == message  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\0\0\x7f\xff", b"\0\0\xff\xff"])
def test_malformed_keys(key: bytes) -> None:
    with pytest.raises(ProtocolError, match="not a control record's key"):
        decode_control_key(key)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0", b"\x7f\xff\0\0\0\0"])
def test_malformed_values(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_control_value(ControlRecordType.COMMIT, value)
