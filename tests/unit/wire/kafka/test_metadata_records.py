"""Metadata records: the bytes that Kafka 4.3.0's own serializer writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headrace.wire.kafka.metadata_records import (
    RECORD_TYPES,
    decode_metadata_record,
    encode_metadata_record,
)

ID = bytes(range(1, 17))


def partition(**more: Any) -> PartitionRecord:
    return PartitionRecord(
        partition_id=3,
        topic_id=ID,
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=5,
        partition_epoch=7,
        **more,
    )


# record, version, what org.apache.kafka.metadata.MetadataRecordSerde writes
JAVA_RECORDS: list[tuple[Message, int, str]] = [
    (
        TopicRecord(name="orders", topic_id=ID),
        0,
        "010200076f72646572730102030405060708090a0b0c0d0e0f1000",
    ),
    (
        RemoveTopicRecord(topic_id=ID),
        0,
        "0109000102030405060708090a0b0c0d0e0f1000",
    ),
    (
        partition(),
        0,
        "010300000000030102030405060708090a0b0c0d0e0f100400000001000000020000000303000000"
        "0100000002010100000001000000050000000700",
    ),
    (
        partition(directories=[ID] * 3),
        1,
        "010301000000030102030405060708090a0b0c0d0e0f100400000001000000020000000303000000"
        "01000000020101000000010000000500000007040102030405060708090a0b0c0d0e0f1001020304"
        "05060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f1000",
    ),
    (
        partition(directories=[ID] * 3, eligible_leader_replicas=[3]),
        2,
        "010302000000030102030405060708090a0b0c0d0e0f100400000001000000020000000303000000"
        "01000000020101000000010000000500000007040102030405060708090a0b0c0d0e0f1001020304"
        "05060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f100101050200000003",
    ),
    (
        PartitionChangeRecord(partition_id=3, topic_id=ID, isr=[2], leader=2),
        0,
        "010500000000030102030405060708090a0b0c0d0e0f100200050200000002010400000002",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        0,
        "01040002076f72646572730d726574656e74696f6e2e6d73053130303000",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        0,
        "01040002076f72646572730d726574656e74696f6e2e6d730000",
    ),
    (
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        0,
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=1000),
        0,
        "010f0000000001000000000000000900000000000003e800",
    ),
    (
        NoOpRecord(),
        0,
        "01140000",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=11,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=40000)],
            features=[
                BrokerFeature(
                    name="metadata.version", min_supported_version=7, max_supported_version=30
                )
            ],
            rack="r1",
            fenced=True,
            log_dirs=[ID],
        ),
        3,
        "01000300000001000102030405060708090a0b0c0d0e0f10000000000000000b020a504c41494e54"
        "4558540a6c6f63616c686f73749c4000000002116d657461646174612e76657273696f6e0007001e"
        "000372310100010011020102030405060708090a0b0c0d0e0f10",
    ),
    (
        FenceBrokerRecord(id=1, epoch=11),
        0,
        "01070000000001000000000000000b00",
    ),
    (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=-1),
        1,
        "01110100000001000000000000000b010001ff",
    ),
]


@pytest.mark.parametrize(("record", "version", "data"), JAVA_RECORDS)
def test_bytes_are_kafkas(record: Message, version: int, data: str) -> None:
    assert encode_metadata_record(record, version).hex() == data
    assert decode_metadata_record(bytes.fromhex(data)) == record


def test_the_newest_version_unless_told() -> None:
    assert encode_metadata_record(partition())[2] == 2


@pytest.mark.parametrize("api_key", sorted(RECORD_TYPES))
def test_every_type_and_version_round_trips(api_key: int) -> None:
    record_type = RECORD_TYPES[api_key]
    for version in range(record_type.VERSIONS[0], record_type.VERSIONS[1] + 1):
        record = record_type()
        assert decode_metadata_record(encode_metadata_record(record, version)) == record


def test_the_types_that_a_controller_needs() -> None:
    names = {key: record.__name__ for key, record in RECORD_TYPES.items()}
    assert names[0] == "RegisterBrokerRecord"
    assert names[14] == "ClientQuotaRecord"
    assert names[18] == "AccessControlEntryRecord"
    assert names[27] == "RegisterControllerRecord"
    assert len(names) == 26


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"\x01\x02", "cut short"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "type 99"),
        (b"\x01\x02\x63", "no version 99"),
        (b"\x01\x14\x00\x00!", "1 bytes behind a NoOpRecord"),
        (b"\x01\x02\x00\x07or", "length 6, 2 bytes are left"),
    ],
)
def test_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_record(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_a_protocol_error(data: bytes) -> None:
    try:
        record = decode_metadata_record(b"\x01" + data)
    except ProtocolError:
        return
    assert type(record) in RECORD_TYPES.values()


def test_other_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="BrokerEndpoint is not a metadata record"):
        encode_metadata_record(BrokerEndpoint())
