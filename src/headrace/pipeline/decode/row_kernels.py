"""Machine code that writes rows in their canonical bytes, for the checksum.

Owns: the byte form of a row (docs/PIPELINE.md, "The checksum"), all integers big endian.
Must not know: Arrow, CRCs. A file of its own, so that who only decodes does not compile it.

    row      offset int64 | timestamp int64, milliseconds | bytes key | bytes value
             | header_count int32 | headers
    header   bytes key | bytes value
    bytes    length int32, -1 for null | the bytes
"""

import numpy as np
from numba import njit, types

from headrace.pipeline.decode.compiled import compiling
from headrace.pipeline.decode.memory import copy_bytes

# Slots of `skips`: how many bits of each validity bitmap belong to rows before the first.
KEY, VALUE, CONTENT, HEADERS = range(4)

_OUT = types.Array(types.uint8, 1, "C")
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)


with compiling():

    @njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
    def put_int32(out, position, value):
        for index in range(4):
            out[position + index] = np.uint8((value >> (24 - 8 * index)) & 255)
        return position + 4

    @njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
    def put_int64(out, position, value):
        for index in range(8):
            out[position + index] = np.uint8((value >> (56 - 8 * index)) & 255)
        return position + 8

    @njit(types.int64(_OUT, types.int64, _BYTES, types.int64, types.int64), cache=True, nogil=True)
    def put_bytes(out, position, data, begin, stop):
        position = put_int32(out, position, stop - begin)
        copy_bytes(out, position, data, begin, stop - begin)
        return position + stop - begin

    @njit(types.boolean(_BYTES, types.int64), cache=True, nogil=True)
    def is_set(bits, index):
        """No bits at all mean that nothing is null."""
        return bits.size == 0 or (bits[index >> 3] >> np.uint8(index & 7)) & np.uint8(1) == 1

    @njit(
        types.UniTuple(types.int64, 2)(
            *(_OUT, types.int64, _I64, _I64),
            *(_BYTES, _I32, _BYTES),
            *(_BYTES, _I32, _BYTES),
            *(_I32, _BYTES),
            *(_BYTES, _I32),
            *(_BYTES, _I32, _BYTES),
            types.Array(types.int64, 1, "C"),
        ),
        cache=True,
        nogil=True,
    )
    def write_rows(
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
    ):
        """Rows from `row` on while they fit into `out`: the next row, and the bytes written.

        If not even one fits, the bytes it needs are returned as a negative number.
        """
        filled = 0
        while row < offsets.size:
            first, last = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
            if not is_set(header_bits, row + skips[HEADERS]):
                last = first
            size = (
                28 + (key_ends[row + 1] - key_ends[row]) + (value_ends[row + 1] - value_ends[row])
            )
            size += 8 * (last - first)
            size += name_ends[last] - name_ends[first] + content_ends[last] - content_ends[first]
            if size > out.size - filled:
                if filled == 0:
                    return row, -size
                break
            position = put_int64(out, filled, offsets[row])
            position = put_int64(out, position, timestamps[row] // 1000)
            if is_set(key_bits, row + skips[KEY]):
                position = put_bytes(out, position, keys, key_ends[row], key_ends[row + 1])
            else:
                position = put_int32(out, position, -1)
            if is_set(value_bits, row + skips[VALUE]):
                position = put_bytes(out, position, values, value_ends[row], value_ends[row + 1])
            else:
                position = put_int32(out, position, -1)
            position = put_int32(out, position, last - first)
            for header in range(first, last):
                position = put_bytes(out, position, names, name_ends[header], name_ends[header + 1])
                if is_set(content_bits, header + skips[CONTENT]):
                    position = put_bytes(
                        out, position, contents, content_ends[header], content_ends[header + 1]
                    )
                else:
                    position = put_int32(out, position, -1)
            filled = position
            row += 1
        return row, filled
