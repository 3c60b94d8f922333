"""The checksum: what it covers, and that it does not depend on how rows were cut."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipeline.decode.reference import checksum_by_reference, decoded, rows_of
from tests.unit.pipeline.decode.test_decode import ALL, CONTENTS, batches_of

from headrace.pipeline.decode.checksum import BLOCK_BYTES, checksum
from headrace.wire.kafka.records import build_batch


@settings(max_examples=40, deadline=None)
@given(CONTENTS, st.lists(st.integers(0, 30), max_size=4))
def test_it_is_that_of_the_description_however_rows_are_cut(contents: Any, cuts: list[int]) -> None:
    batches = decoded(batches_of(contents), 0, ALL)
    expected = checksum_by_reference(rows_of(batches))
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    bounds = [0, *sorted(cuts), 1_000]
    for pieces in (batches, whole):
        crc = 0
        for piece in pieces:
            for start, end in pairwise(bounds):
                crc = checksum(piece.slice(start, end - start), crc)
        assert crc == expected


def test_rows_larger_than_a_block_are_covered() -> None:
    rows = [(b"k", bytes([index]) * (BLOCK_BYTES * index + 1), [], 5) for index in range(3)]
    (batch,) = decoded(build_batch(rows), 0, ALL)
    assert checksum(batch) == checksum_by_reference(rows_of([batch]))


def test_null_empty_and_absent_all_differ() -> None:
    contents = [
        (None, b"", [], 1),
        (b"", None, [], 1),
        (b"", b"", [], 1),
        (None, None, [], 1),
        (None, None, [("", None)], 1),
        (None, None, [("", b"")], 1),
        (None, None, [], 2),
    ]
    sums = {checksum(decoded(build_batch([each]), 0, ALL)[0]) for each in contents}
    assert len(sums) == len(contents)


def test_nothing_has_the_checksum_of_what_was_before() -> None:
    (batch,) = decoded(build_batch([(b"k", b"v", [], 5)]), 0, ALL)
    assert checksum(batch.slice(0, 0), 77) == 77


def test_missing_headers_count_as_none() -> None:
    (batch,) = decoded(build_batch([(b"k", b"v", [], 5), (b"k", b"v", [("a", b"b")], 5)]), 0, ALL)
    headers = pa.array([None, [{"key": "a", "value": b"b"}]], batch.schema.field("headers").type)
    changed = batch.set_column(6, batch.schema.field("headers"), headers)
    assert checksum(changed) == checksum(batch)
