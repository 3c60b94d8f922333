"""Machine code over the records of batches: two passes, and the rows' canonical bytes.

Owns: the record format v2 behind the batch header (KIP-98), as loops over arrays that numba
compiles. Must not know: Arrow, compression, transactions. Importing this module compiles, or
loads what was compiled before: import it where it is used.

    record   length varint | attributes int8 | timestamp_delta varlong | offset_delta varint
             | key_length varint | key | value_length varint | value | header_count varint | headers
    header   key_length varint | key | value_length varint | value

Compiled code checks no bounds by itself. Invariants: every read lies within the section it is
given, because each is checked against the record's end and that against the section's; `copy`
reads and writes only what `parse` has checked and counted.
"""

import numpy as np
from numba import njit

from headrace.pipeline.decode.compiled import compiling
from headrace.pipeline.decode.memory import copy_bytes

# Columns of the table of sections.
BUFFER, BEGIN, STOP, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIMESTAMP, IS_APPEND_TIME = range(8)
SECTION_COLUMNS = 8

# Slots of the totals that `parse` leaves.
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS = range(5)
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, NOT_ASCII = range(5, 10)
BAD_SECTION = 10
TOTALS = 11

# What `parse` returns.
GOOD = 0
CUT_SHORT = 1
BAD_VARINT = 2
BAD_LENGTH = 3
BAD_OFFSET = 4
BAD_HEADERS = 5
TRAILING = 6

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
"""Milliseconds beyond this have no microseconds in 64 bits: such timestamps are cut to it."""

_BYTES = "uint8[::1]"
_I32 = "int32[::1]"
_I64 = "int64[::1]"
_TABLE = "int64[:,::1]"


with compiling():

    @njit("Tuple((int64, int64))(uint8[::1], int64, int64, int64)", cache=True, nogil=True)
    def read_varint(data, position, stop, bits):
        """The zig-zag varint at `position` and the position behind it; -1 cut, -2 too long."""
        value = np.uint64(0)
        shift = 0
        while shift < bits:
            if position >= stop:
                return 0, -1
            byte = np.uint64(data[position])
            position += 1
            value |= (byte & np.uint64(127)) << np.uint64(shift)
            if byte < 128:
                half = np.int64(value >> np.uint64(1))
                return half ^ -np.int64(value & np.uint64(1)), position
            shift += 7
        return 0, -2

    @njit(
        f"int64({_BYTES}, {_BYTES}, {_TABLE}, int64, int64, {_I64}, {_I64}, {_I32},"
        f" {_I64}, {_I32}, {_I64}, {_I32}, {_I64}, {_I32}, {_I64}, {_I64})",
        cache=True,
        nogil=True,
    )
    def parse(
        raw,
        arena,
        sections,
        start,
        end,
        offsets,
        timestamps,
        timestamp_types,
        key_at,
        key_ends,
        value_at,
        value_ends,
        header_at,
        header_ends,
        section_rows,
        totals,
    ):
        """First pass: check every record, keep those in [start, end): where their parts lie."""
        row = 0
        key_bytes = 0
        value_bytes = 0
        headers = 0
        key_ends[0] = 0
        value_ends[0] = 0
        header_ends[0] = 0
        for slot in range(TOTALS):
            totals[slot] = 0
        for section in range(sections.shape[0]):
            totals[BAD_SECTION] = section
            section_rows[section] = row
            data = raw if sections[section, BUFFER] == 0 else arena
            position = sections[section, BEGIN]
            stop = sections[section, STOP]
            base_offset = sections[section, BASE_OFFSET]
            last_delta = sections[section, LAST_DELTA]
            base_timestamp = sections[section, BASE_TIMESTAMP]
            is_append_time = sections[section, IS_APPEND_TIME]
            delta_before = -1
            for _ in range(sections[section, COUNT]):
                length, position = read_varint(data, position, stop, 35)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                if length < 0 or length > stop - position:
                    return BAD_LENGTH
                record_end = position + length
                position += 1  # attributes, of which none is defined
                if position > record_end:
                    return CUT_SHORT
                timestamp_delta, position = read_varint(data, position, record_end, 70)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                offset_delta, position = read_varint(data, position, record_end, 35)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                if offset_delta <= delta_before or offset_delta > last_delta:
                    return BAD_OFFSET
                delta_before = offset_delta
                key_length, position = read_varint(data, position, record_end, 35)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                key_position = position
                if key_length > record_end - position:
                    return BAD_LENGTH
                position += max(key_length, 0)
                value_length, position = read_varint(data, position, record_end, 35)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                value_position = position
                if value_length > record_end - position:
                    return BAD_LENGTH
                position += max(value_length, 0)
                header_count, position = read_varint(data, position, record_end, 35)
                if position < 0:
                    return BAD_VARINT if position == -2 else CUT_SHORT
                if header_count < 0 or header_count * 2 > record_end - position:
                    return BAD_HEADERS
                offset = base_offset + offset_delta
                is_wanted = start <= offset < end
                header_position = position
                for _ in range(header_count):
                    name_length, position = read_varint(data, position, record_end, 35)
                    if position < 0:
                        return BAD_VARINT if position == -2 else CUT_SHORT
                    if name_length < 0 or name_length > record_end - position:
                        return BAD_HEADERS
                    if is_wanted:
                        totals[HEADER_KEY_BYTES] += name_length
                        for at in range(position, position + name_length):
                            totals[NOT_ASCII] |= data[at] >> 7
                    position += name_length
                    length, position = read_varint(data, position, record_end, 35)
                    if position < 0:
                        return BAD_VARINT if position == -2 else CUT_SHORT
                    if length > record_end - position:
                        return BAD_HEADERS
                    if is_wanted:
                        totals[HEADER_VALUE_BYTES] += max(length, 0)
                        totals[HEADER_VALUE_NULLS] += length < 0
                    position += max(length, 0)
                if position != record_end:
                    return BAD_LENGTH
                if not is_wanted:
                    continue
                timestamp = base_timestamp
                if not is_append_time:
                    timestamp += timestamp_delta
                timestamp = min(max(timestamp, -TIMESTAMP_MS_MAX), TIMESTAMP_MS_MAX)
                offsets[row] = offset
                timestamps[row] = timestamp * 1000
                timestamp_types[row] = is_append_time
                key_at[row] = key_position if key_length >= 0 else -1
                value_at[row] = value_position if value_length >= 0 else -1
                header_at[row] = header_position
                totals[KEY_NULLS] += key_length < 0
                totals[VALUE_NULLS] += value_length < 0
                key_bytes += max(key_length, 0)
                value_bytes += max(value_length, 0)
                headers += header_count
                row += 1
                key_ends[row] = key_bytes
                value_ends[row] = value_bytes
                header_ends[row] = headers
            if position != stop:
                return TRAILING
        section_rows[sections.shape[0]] = row
        totals[ROWS] = row
        totals[KEY_BYTES] = key_bytes
        totals[VALUE_BYTES] = value_bytes
        totals[HEADERS] = headers
        return GOOD

    @njit(
        f"void({_BYTES}, {_BYTES}, {_TABLE}, {_I64}, {_I64}, {_I32}, {_I64}, {_I32}, {_BYTES},"
        f" {_BYTES}, {_BYTES}, {_BYTES})",
        cache=True,
        nogil=True,
    )
    def copy(
        raw,
        arena,
        sections,
        section_rows,
        key_at,
        key_ends,
        value_at,
        value_ends,
        keys,
        key_bits,
        values,
        value_bits,
    ):
        """Second pass: the bytes of keys and values, and which of them are null."""
        for section in range(sections.shape[0]):
            data = raw if sections[section, BUFFER] == 0 else arena
            for row in range(section_rows[section], section_rows[section + 1]):
                source = key_at[row]
                if source >= 0:
                    key_bits[row >> 3] |= np.uint8(1 << (row & 7))
                    target = key_ends[row]
                    copy_bytes(keys, target, data, source, key_ends[row + 1] - target)
                source = value_at[row]
                if source >= 0:
                    value_bits[row >> 3] |= np.uint8(1 << (row & 7))
                    target = value_ends[row]
                    copy_bytes(values, target, data, source, value_ends[row + 1] - target)

    @njit(
        f"void({_BYTES}, {_BYTES}, {_TABLE}, {_I64}, {_I64}, {_I32}, {_BYTES}, {_I32}, {_BYTES},"
        f" {_I32}, {_BYTES})",
        cache=True,
        nogil=True,
    )
    def copy_headers(
        raw,
        arena,
        sections,
        section_rows,
        header_at,
        header_ends,
        names,
        name_ends,
        contents,
        content_ends,
        content_bits,
    ):
        """Second pass over the headers, where there are any."""
        name_ends[0] = 0
        content_ends[0] = 0
        name_bytes = 0
        content_bytes = 0
        header = 0
        for section in range(sections.shape[0]):
            data = raw if sections[section, BUFFER] == 0 else arena
            stop = sections[section, STOP]
            for row in range(section_rows[section], section_rows[section + 1]):
                position = header_at[row]
                for _ in range(header_ends[row + 1] - header_ends[row]):
                    length, position = read_varint(data, position, stop, 35)
                    copy_bytes(names, name_bytes, data, position, length)
                    position += length
                    name_bytes += length
                    length, position = read_varint(data, position, stop, 35)
                    if length >= 0:
                        content_bits[header >> 3] |= np.uint8(1 << (header & 7))
                        copy_bytes(contents, content_bytes, data, position, length)
                        position += length
                        content_bytes += length
                    header += 1
                    name_ends[header] = name_bytes
                    content_ends[header] = content_bytes
