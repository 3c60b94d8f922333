"""The checksum of rows: CRC-32C over their canonical bytes, in order.

Owns: how Arrow's arrays are handed to the kernel that writes the bytes (`row_kernels` draws them).
Must not know: files. Invariant: it depends on the rows alone, not on how they were cut into record
batches; `partition`, `timestampType` and the topic are not part of it.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.base.crc32c import crc32c

Bytes = npt.NDArray[np.uint8]
Ints32 = npt.NDArray[np.int32]

BLOCK_BYTES = 256 * 1024
"""Rows are written so many bytes at a time: a block that stays in the processor's cache."""

Number = TypeVar("Number", bound=np.generic)

_NO_BITS = np.empty(0, np.uint8)
_NO_BITS.flags.writeable = False
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def checksum(batch: pa.RecordBatch, previous: int = 0) -> int:
    """The checksum of all rows so far: `previous` is that of the rows before these."""
    from headrace.pipeline.decode import row_kernels

    columns = {name: batch.column(batch.schema.get_field_index(name)) for name in _COLUMNS}
    key_bits, key_ends, keys, key_skip = _binary(columns["key"])
    value_bits, value_ends, values, value_skip = _binary(columns["value"])
    headers = columns["headers"]
    header_bits, header_skip = _bits(headers)
    # The child of a sliced list is whole: the list's own offsets say which part is meant.
    structs = headers.values
    _, name_ends, names, _ = _binary(_child(structs, "key"))
    content_bits, content_ends, contents, content_skip = _binary(_child(structs, "value"))
    offsets = _integers(columns["offset"])
    timestamps = _integers(columns["timestamp"].cast(pa.timestamp("us", tz="UTC")))
    header_ends = _ends(headers)
    skips = np.array([key_skip, value_skip, content_skip, header_skip], np.int64)
    out = np.empty(BLOCK_BYTES, np.uint8)
    crc, row, count = previous, 0, batch.num_rows
    while row < count:
        row, filled = row_kernels.write_rows(
            out,
            row,
            offsets,
            timestamps,
            key_bits,
            key_ends,
            keys,
            value_bits,
            value_ends,
            values,
            header_ends,
            header_bits,
            names,
            name_ends,
            content_bits,
            content_ends,
            contents,
            skips,
        )
        if filled < 0:
            out = np.empty(-filled, np.uint8)
            continue
        crc = crc32c(out.data[:filled], crc)
    return int(crc)


def _child(structs: pa.StructArray, name: str) -> pa.Array:
    return structs.field(structs.type.get_field_index(name))


def _binary(array: pa.Array) -> tuple[Bytes, Ints32, Bytes, int]:
    """Validity bits, ends and bytes of a binary or string array, and how many bits to skip."""
    bits, skip = _bits(array)
    return bits, _ends(array), _bytes(array.buffers()[2]), skip


def _bits(array: pa.Array) -> tuple[Bytes, int]:
    buffer = array.buffers()[0]
    return (_NO_BITS if buffer is None else _bytes(buffer)), array.offset


def _ends(array: pa.Array) -> Ints32:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return _frozen(np.zeros(1, np.int32))
    return _frozen(np.frombuffer(buffer, np.int32, count=len(array) + 1, offset=4 * array.offset))


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    assert array.null_count == 0, "every record has an offset and a timestamp"
    if not len(array):
        return _frozen(np.empty(0, np.int64))
    buffer = array.buffers()[1]
    return _frozen(np.frombuffer(buffer, np.int64, count=len(array), offset=8 * array.offset))


def _bytes(buffer: pa.Buffer | None) -> Bytes:
    if buffer is None or not buffer.size:
        return _NO_BITS
    return _frozen(np.frombuffer(buffer, np.uint8))


def _frozen(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The kernel is compiled for arrays that it may not write: of Arrow's only some may be."""
    array.flags.writeable = False
    return array
