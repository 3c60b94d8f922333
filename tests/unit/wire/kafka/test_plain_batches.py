"""Plain batches are, byte for byte, what the general builder makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.kafka.plain_batches import encode_plain_batch, encode_values
from headrace.wire.kafka.record_batch import stamp
from headrace.wire.kafka.records import build_batch

NOW_MS = 1_794_796_729_000
contents = st.none() | st.binary(max_size=300)


@given(st.lists(st.tuples(contents, contents), min_size=1, max_size=70))
def test_the_same_bytes(records: list[tuple[bytes | None, bytes | None]]) -> None:
    general = [(key, value, (), NOW_MS) for key, value in records]
    assert encode_plain_batch(records, NOW_MS) == build_batch(general)
    in_transaction = build_batch(general, producer_id=7, producer_epoch=3, is_transactional=True)
    assert encode_plain_batch(records, NOW_MS, 7, 3) == in_transaction


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=70),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
)
def test_values_that_have_their_place(values: list[bytes], offset: int, epoch: int) -> None:
    batch = build_batch([(None, value, (), NOW_MS) for value in values])
    stamp(memoryview(batch), 0, offset, epoch)
    assert encode_values(values, NOW_MS, offset, epoch) == batch


def test_long_values() -> None:
    value = bytes(3_000_000)
    assert encode_plain_batch([(b"k", value)], NOW_MS) == build_batch([(b"k", value, (), NOW_MS)])


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        encode_plain_batch([], NOW_MS)
    with pytest.raises(ValueError, match="needs a record"):
        encode_values([], NOW_MS, 0, 0)
