"""Transactions as records: both versions of the value, tombstones, and what is not ours."""

from dataclasses import replace

import pytest

from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import TransactionState
from headrace.broker.transactions.store import read_state, state_record, tombstone

WHOLE = TransactionMetadata(
    "id",
    producer_id=7,
    timeout_ms=60_000,
    producer_epoch=4,
    previous_producer_id=6,
    next_producer_id=8,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({("t", 0), ("t", 3), ("u", 1)}),
    start_timestamp_ms=100,
    last_update_timestamp_ms=200,
    client_version=2,
)


def test_the_bytes_of_a_record() -> None:
    key, value = state_record(replace(WHOLE, partitions=frozenset({("t", 1)})), 2)
    assert key == bytes.fromhex("0000 0002") + b"id"
    assert value == bytes.fromhex(
        "0001"  # version
        "0000000000000007 0004 0000ea60 02"  # producer id, epoch, timeout, PrepareCommit
        "02 02 74 02 00000001 00"  # one topic, "t", one partition
        "00000000000000c8 0000000000000064"  # last update, start
        "03 0008 0000000000000006 0108 0000000000000008 0202 0002"  # tagged fields
    )


def test_a_flexible_record_comes_back_whole() -> None:
    key, value = state_record(WHOLE, 2)
    assert read_state(key, value) == ("id", WHOLE)


def test_an_old_record_lacks_what_came_later() -> None:
    key, value = state_record(WHOLE, 0)
    assert value is not None
    assert value[:2] == b"\x00\x00"
    lacking = replace(WHOLE, previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert read_state(key, value) == ("id", lacking)


@pytest.mark.parametrize("server_version", [0, 2])
def test_an_empty_one_has_no_partitions(server_version: int) -> None:
    empty = TransactionMetadata("id", 7, 1, producer_epoch=0, last_update_timestamp_ms=3)
    assert read_state(*state_record(empty, server_version)) == ("id", empty)


def test_a_tombstone() -> None:
    assert read_state(*tombstone("id")) == ("id", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00\x05rest", b"\x00\x00"),
        (b"\x00\x00\x00\x09short", None),
        (b"\x00\x00\x00\x02id", b"\x00\x63future"),
        (b"\x00\x00\x00\x02id", b"\x00\x00\x01"),
    ],
)
def test_what_is_not_ours_to_read(key: bytes, value: bytes | None) -> None:
    assert read_state(key, value) is None
