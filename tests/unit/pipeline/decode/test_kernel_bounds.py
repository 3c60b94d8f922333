"""Compiled code checks no bounds, so its source is run as Python here, over arrays that do.

Random damage and every cut of a section: each index that the kernels use lies within its array.
"""

import random
from typing import Any

import numpy as np
import pytest

from headrace.pipeline.decode import kernels, row_kernels
from headrace.wire.kafka.records import build_batch


class Guarded:
    """An array of Python integers that refuses any index but its own."""

    def __init__(self, values: Any) -> None:
        self.values = [int(each) for each in values]
        self.size = len(self.values)

    def __getitem__(self, index: int) -> int:
        assert 0 <= index < self.size, f"read at {index} of {self.size}"
        return self.values[index]

    def __setitem__(self, index: int, value: int) -> None:
        assert 0 <= index < self.size, f"write at {index} of {self.size}"
        self.values[index] = int(value)


def room(size: int) -> Guarded:
    return Guarded([0] * size)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in (
        (kernels, ("read_varint", "parse", "copy", "copy_headers")),
        (row_kernels, ("put_int32", "put_int64", "put_bytes", "is_set", "write_rows")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
        monkeypatch.setattr(module, "copy_bytes", copy_bytes)


def copy_bytes(
    target: Guarded, target_at: int, source: Guarded, source_at: int, count: int
) -> None:
    assert count >= 0
    for index in range(count):
        target[target_at + index] = source[source_at + index]


def section_of(body: bytes, count: int) -> "np.ndarray[Any, Any]":
    return np.array([[0, 0, len(body), count, 100, 10, 1_000, 0]], np.int64)


def run(body: bytes, count: int) -> int:
    """Both passes over one section, every array exactly as large as it must be."""
    raw, sections = Guarded(body), section_of(body, count)
    totals, section_rows = room(kernels.TOTALS), room(2)
    offsets, timestamps, types = room(count), room(count), room(count)
    key_at, value_at, header_at = room(count), room(count), room(count)
    key_ends, value_ends, header_ends = room(count + 1), room(count + 1), room(count + 1)
    with np.errstate(over="ignore"):
        code: int = kernels.parse(
            *(raw, room(0), sections, 0, 1 << 40, offsets, timestamps, types),
            *(key_at, key_ends, value_at, value_ends, header_at, header_ends),
            *(section_rows, totals),
        )
        if code != kernels.GOOD:
            return code
        rows, headers = totals[kernels.ROWS], totals[kernels.HEADERS]
        kernels.copy(
            *(raw, room(0), sections, section_rows, key_at, key_ends, value_at, value_ends),
            *(room(totals[kernels.KEY_BYTES]), room((rows + 7) // 8)),
            *(room(totals[kernels.VALUE_BYTES]), room((rows + 7) // 8)),
        )
        kernels.copy_headers(
            *(raw, room(0), sections, section_rows, header_at, header_ends),
            *(room(totals[kernels.HEADER_KEY_BYTES]), room(headers + 1)),
            *(room(totals[kernels.HEADER_VALUE_BYTES]), room(headers + 1)),
            room((headers + 7) // 8),
        )
    return code


RECORDS = [
    (b"key", b"value", [("name", b"content"), ("none", None)], 1_000),
    (None, b"x" * 70, [], 1_001),
    (b"", None, [("", b"")], 999),
]
SECTION = bytes(build_batch(RECORDS)[61:])


def test_a_whole_section_stays_within_its_arrays() -> None:
    assert run(SECTION, 3) == kernels.GOOD


def test_every_cut_of_a_section_stays_within_it() -> None:
    for length in range(len(SECTION)):
        assert run(SECTION[:length], 3) != kernels.GOOD


@pytest.mark.parametrize("seed", range(6))
def test_damaged_sections_stay_within_their_arrays(seed: int) -> None:
    dice = random.Random(seed)
    seen = set()
    for _ in range(150):
        bad = bytearray(SECTION)
        for _ in range(dice.randrange(1, 5)):
            bad[dice.randrange(len(bad))] = dice.choice((0, 1, 2, 126, 127, 128, 254, 255))
        seen.add(run(bytes(bad), dice.choice((2, 3, 3, 3, 4))))
    assert len(seen) > 3, "too little was damaged in too few ways"


def test_random_bytes_stay_within_their_arrays() -> None:
    dice = random.Random(1)
    for _ in range(300):
        body = dice.randbytes(dice.randrange(60))
        run(body, dice.randrange(len(body) // 7 + 1))


def test_canonical_bytes_fill_their_room_exactly_or_not_at_all() -> None:
    """Two rows, one header: with a byte too few the first row alone is written."""
    key_ends, value_ends = Guarded([0, 1, 1]), Guarded([0, 2, 4])
    columns = [
        *(Guarded([5, 6]), Guarded([1_000, 2_000])),
        *(Guarded([1]), key_ends, Guarded(b"k")),
        *(room(0), value_ends, Guarded(b"abcd")),
        *(Guarded([0, 1, 1]), room(0)),
        *(Guarded(b"n"), Guarded([0, 1])),
        *(Guarded([0]), Guarded([0, 0]), room(0)),
        Guarded([0, 0, 0, 0]),
    ]
    first = 28 + 1 + 2 + 8 + 1
    second = 28 + 2
    assert row_kernels.write_rows(room(first + second), 0, *columns) == (2, first + second)
    assert row_kernels.write_rows(room(first + second - 1), 0, *columns) == (1, first)
    assert row_kernels.write_rows(room(first - 1), 0, *columns) == (0, -first)
