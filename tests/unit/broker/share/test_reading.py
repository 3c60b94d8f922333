"""Batches by their headers, what nobody may see, and the bytes that hold what was acquired."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base.errors import CorruptionError
from headrace.base.storage import FileRegion
from headrace.broker.share.partition.states import Acquired, LogBatch
from headrace.broker.share.reading import AbortedProducers, Reading
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT
from headrace.wire.kafka.records import build_batch

Batch = tuple[int, int, int]
"""First offset, records, bytes of each value."""


def encoded(first: int, count: int, value_bytes: int) -> bytes:
    batch = bytearray(build_batch([(None, bytes(value_bytes), (), 1) for _ in range(count)]))
    struct.pack_into(">q", batch, 0, first)
    return bytes(batch)


def written(*batches: bytes, before: bytes = b"") -> FileRegion:
    file = SimulatedDisk().open("/log", create=True)
    whole = b"".join(batches)
    file.write([before, whole])
    return FileRegion(file, len(before), len(whole))


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    found: list[Batch] = []
    offset = 0
    for _ in range(draw(st.integers(1, 60))):
        offset += draw(st.sampled_from([0, 0, 0, 3]))
        count = draw(st.integers(1, 4))
        found.append((offset, count, draw(st.sampled_from([0, 10, 200, 900, 5000, 70_000]))))
        offset += count
    return found


@settings(max_examples=40, deadline=None)
@given(log=logs(), data=st.data())
def test_every_batch_is_seen_and_the_bytes_of_those_acquired_are_cut_out(
    log: list[Batch], data: st.DataObject
) -> None:
    whole = [encoded(*batch) for batch in log]
    region = written(*whole, before=b"something else")
    reading = Reading(region, None)
    expected = [LogBatch(first, first + count - 1) for first, count, _ in log]
    assert list(reading.batches()) == expected
    begin = data.draw(st.integers(0, len(log) - 1))
    end = data.draw(st.integers(begin, len(log) - 1))
    acquired = [
        Acquired(expected[begin].last_offset, expected[begin].last_offset, 1),
        Acquired(expected[end].first_offset, expected[end].last_offset, 1),
    ]
    cut = reading.holding(acquired)
    assert cut.file.read(cut.position, cut.length) == b"".join(whole[begin : end + 1])


def test_no_more_is_looked_at_than_asked_for() -> None:
    reading = Reading(written(encoded(0, 2, 10), b"no batch" * 20), None)
    assert next(reading.batches()) == LogBatch(0, 1)
    cut = reading.holding([Acquired(0, 1, 1)])
    assert cut.length == len(encoded(0, 2, 10))


@pytest.mark.parametrize("tail", [b"short", bytes(100), encoded(2, 1, 100)[:-1]])
def test_what_is_no_batch_is_told(tail: bytes) -> None:
    reading = Reading(written(encoded(0, 2, 10), tail), None)
    with pytest.raises(CorruptionError):
        list(reading.batches())


def test_a_transaction_is_aborted_from_its_first_record_to_its_marker() -> None:
    aborted = AbortedProducers([(7, 10), (8, 12), (7, 30)])
    seen = [
        aborted.has(last, attributes, producer)
        for last, attributes, producer in [
            (9, TRANSACTIONAL_BIT, 7),  # committed before
            (10, TRANSACTIONAL_BIT, 7),
            (11, 0, 7),  # not of the transaction
            (12, TRANSACTIONAL_BIT, 8),
            (13, TRANSACTIONAL_BIT, 9),
            (14, CONTROL_BIT | TRANSACTIONAL_BIT, 7),
            (15, TRANSACTIONAL_BIT, 7),  # the next one, committed
            (16, TRANSACTIONAL_BIT, 8),
            (17, CONTROL_BIT | TRANSACTIONAL_BIT, 8),
            (18, TRANSACTIONAL_BIT, 8),
            (31, TRANSACTIONAL_BIT, 7),
        ]
    ]
    assert seen == [False, True, False, True, False, False, False, True, False, False, True]
