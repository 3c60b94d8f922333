"""Records of the offsets log: the bytes that Kafka 4.3.0's own serializer writes."""

import pytest

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.coordinator_records import (
    KEY_TYPES,
    VALUE_TYPES,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from headrace.wire.kafka.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=4)
KEY_BYTES = bytes.fromhex("000100016700017400000004")
VALUE = OffsetCommitValue(offset=99, leader_epoch=5, metadata="m", commit_timestamp=1234567)
TOPIC_ID = bytes(range(1, 17))

GROUP_KEY_BYTES = bytes.fromhex("0002000167")
GROUP_BYTES = bytes.fromhex(
    "00030008636f6e73756d657200000008000572616e676500026d31000000000000022b0000000100"
    "026d310002693100016300022f680000ea600000afc80000000201020000000103"
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=8,
    protocol="range",
    leader="m1",
    current_state_timestamp=555,
    members=[
        MemberMetadata(
            member_id="m1",
            group_instance_id="i1",
            client_id="c",
            client_host="/h",
            rebalance_timeout=60000,
            session_timeout=45000,
            subscription=b"\1\2",
            assignment=b"\3",
        )
    ],
)


def test_keys_are_kafkas() -> None:
    assert encode_key(KEY) == KEY_BYTES
    assert decode_key(KEY_BYTES) == KEY
    assert encode_key(GroupMetadataKey(group="g")) == GROUP_KEY_BYTES
    assert decode_key(GROUP_KEY_BYTES) == GroupMetadataKey(group="g")


def test_commits_are_kafkas() -> None:
    classic = bytes.fromhex("000300000000000000630000000500016d000000000012d687")
    assert encode_value(VALUE, 3) == classic
    assert decode_value(KEY, classic) == VALUE
    with_id = OffsetCommitValue(
        offset=99, leader_epoch=5, metadata="m", commit_timestamp=1234567, topic_id=TOPIC_ID
    )
    flexible = bytes.fromhex(
        "0004000000000000006300000005026d000000000012d6870100100102030405060708090a0b0c0d0e0f10"
    )
    assert encode_value(with_id) == flexible
    assert decode_value(KEY, flexible) == with_id


def test_groups_are_kafkas() -> None:
    assert encode_value(GROUP) == GROUP_BYTES
    assert decode_value(GroupMetadataKey(group="g"), GROUP_BYTES) == GROUP


def test_an_expiry_needs_the_version_that_has_one() -> None:
    value = OffsetCommitValue(offset=1, expire_timestamp=77)
    assert encode_value(value)[:2] == b"\0\1"
    assert decode_value(KEY, encode_value(value)) == value


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit_is_read(version: int) -> None:
    value = OffsetCommitValue(offset=99, metadata="m", commit_timestamp=3)
    assert decode_value(KEY, encode_value(value, version)) == value


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    data = encode_value(GROUP, version)
    value = decode_value(GroupMetadataKey(group="g"), data)
    assert isinstance(value, GroupMetadataValue)
    assert value.generation == 8
    assert value.members[0].subscription == b"\1\2"


def test_a_tombstone_is_none() -> None:
    assert decode_value(KEY, None) is None


def test_keys_of_old_carry_values_of_today() -> None:
    key = decode_key(encode_key(LegacyOffsetCommitKey(group="g", topic="t", partition=1)))
    assert isinstance(key, LegacyOffsetCommitKey)
    assert decode_value(key, encode_value(VALUE, 3)) == VALUE


def test_every_key_has_a_value() -> None:
    assert KEY_TYPES.keys() == VALUE_TYPES.keys()
    for type_, key in KEY_TYPES.items():
        assert decode_key(encode_key(key())) == key()
        assert decode_value(key(), encode_value(VALUE_TYPES[type_]())) is not None


@pytest.mark.parametrize("data", [b"", b"\0", b"\x7f\xff", b"\0\1", KEY_BYTES[:-1]])
def test_malformed_keys(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_key(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\x7f\xff", b"\0\3", b"\0\3" + bytes(3)])
def test_malformed_values(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_value(KEY, data)
