"""A portion of batches as an Arrow record batch of the raw columns.

Owns: the arrays that the kernels fill, and their dress as Arrow columns without another copy.
Must not know: what the bytes mean (kernels), where they come from (unfold).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.pipeline.columns import HEADER_STRUCT, HEADERS, RAW_SCHEMA, TIMESTAMP
from headrace.pipeline.decode import kernels
from headrace.pipeline.decode.unfold import Bytes, Portion
from headrace.pipeline.decode.walk import InvalidBatch

_REASONS = {
    kernels.CUT_SHORT: "a record is cut short",
    kernels.BAD_VARINT: "a varint is too long",
    kernels.BAD_LENGTH: "a record's length is not that of its fields",
    kernels.BAD_OFFSET: "a record's offset is not between its neighbours'",
    kernels.BAD_HEADERS: "a record's headers can't be read",
    kernels.TRAILING: "there are bytes behind its last record",
}

Ints32 = npt.NDArray[np.int32]
Ints64 = npt.NDArray[np.int64]


class _Rows:
    """What the first pass leaves, sized by what the batches' headers claim."""

    def __init__(self, portion: Portion) -> None:
        count = portion.rows_max
        self.offsets = np.empty(count, np.int64)
        self.timestamps = np.empty(count, np.int64)
        self.timestamp_types = np.empty(count, np.int32)
        self.key_at = np.empty(count, np.int64)
        self.key_ends = np.empty(count + 1, np.int32)
        self.value_at = np.empty(count, np.int64)
        self.value_ends = np.empty(count + 1, np.int32)
        self.header_at = np.empty(count, np.int64)
        self.header_ends = np.empty(count + 1, np.int32)
        self.section_rows = np.empty(len(portion.sections) + 1, np.int64)
        self.totals = np.empty(kernels.TOTALS, np.int64)


def decode(portion: Portion, partition: int, start: int, end: int) -> pa.RecordBatch:
    """The records with offsets in [start, end); `InvalidBatch` if any of them is malformed."""
    rows = _Rows(portion)
    code = kernels.parse(
        portion.raw,
        portion.arena,
        portion.sections,
        start,
        end,
        rows.offsets,
        rows.timestamps,
        rows.timestamp_types,
        rows.key_at,
        rows.key_ends,
        rows.value_at,
        rows.value_ends,
        rows.header_at,
        rows.header_ends,
        rows.section_rows,
        rows.totals,
    )
    if code != kernels.GOOD:
        bad = int(rows.totals[kernels.BAD_SECTION])
        raise InvalidBatch(portion.base_offsets[bad], _REASONS[int(code)])
    count = int(rows.totals[kernels.ROWS])
    keys, values = _keys_and_values(portion, rows, count)
    columns = [
        pa.array(np.full(count, partition, np.int32)),
        _plain(pa.int64(), count, rows.offsets),
        _plain(TIMESTAMP, count, rows.timestamps),
        _plain(pa.int32(), count, rows.timestamp_types),
        keys,
        values,
        _headers(portion, rows, count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)


def _keys_and_values(portion: Portion, rows: _Rows, count: int) -> tuple[pa.Array, pa.Array]:
    totals = rows.totals
    keys = _room(int(totals[kernels.KEY_BYTES]))
    values = _room(int(totals[kernels.VALUE_BYTES]))
    key_bits, value_bits = _bits(count), _bits(count)
    kernels.copy(
        portion.raw,
        portion.arena,
        portion.sections,
        rows.section_rows,
        rows.key_at,
        rows.key_ends,
        rows.value_at,
        rows.value_ends,
        keys,
        key_bits,
        values,
        value_bits,
    )
    key_nulls, value_nulls = int(totals[kernels.KEY_NULLS]), int(totals[kernels.VALUE_NULLS])
    return (
        _binary(pa.binary(), count, key_bits, key_nulls, rows.key_ends, keys),
        _binary(pa.binary(), count, value_bits, value_nulls, rows.value_ends, values),
    )


def _headers(portion: Portion, rows: _Rows, count: int) -> pa.Array:
    totals = rows.totals
    headers = int(totals[kernels.HEADERS])
    names = _room(int(totals[kernels.HEADER_KEY_BYTES]))
    name_ends = np.zeros(headers + 1, np.int32)
    contents = _room(int(totals[kernels.HEADER_VALUE_BYTES]))
    content_ends = np.zeros(headers + 1, np.int32)
    content_bits = _bits(headers)
    if headers:
        kernels.copy_headers(
            portion.raw,
            portion.arena,
            portion.sections,
            rows.section_rows,
            rows.header_at,
            rows.header_ends,
            names,
            name_ends,
            contents,
            content_ends,
            content_bits,
        )
    keys = _binary(pa.binary(), headers, content_bits, 0, name_ends, names)
    content_nulls = int(totals[kernels.HEADER_VALUE_NULLS])
    fields = [
        _as_text(keys) if totals[kernels.NOT_ASCII] else keys.view(pa.string()),
        _binary(pa.binary(), headers, content_bits, content_nulls, content_ends, contents),
    ]
    structs = pa.StructArray.from_arrays(fields, fields=list(HEADER_STRUCT))
    buffers = [None, pa.py_buffer(rows.header_ends)]
    return pa.Array.from_buffers(HEADERS, count, buffers, null_count=0, children=[structs])


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys are UTF-8 by the protocol, but nobody checks that when they are produced."""
    text = keys.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    return text


def _room(size: int) -> Bytes:
    # Arrow's pool hands the memory of earlier batches out again: fewer fresh pages to fault in.
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _bits(count: int) -> Bytes:
    return np.zeros((count + 7) // 8, np.uint8)


def _plain(kind: pa.DataType, count: int, values: npt.NDArray[np.generic]) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], null_count=0)


def _binary(
    kind: pa.DataType, count: int, bits: Bytes, nulls: int, ends: Ints32, data: Bytes
) -> pa.Array:
    validity = pa.py_buffer(bits) if nulls else None
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, count, buffers, null_count=nulls)
