"""Reads the files of a log as rows, damaged ones too: what `headrace log dump` shows.

Owns: one reader a kind of file, found by the file's name. Each yields plain dictionaries; a
row with the key `damage` says what is wrong and where. Must not know: how rows are printed.
It trusts nothing that a broker would check first: a dump is for looking at what is there.
"""

import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from headrace.base.crc32c import crc32c
from headrace.base.errors import HeadraceError, ProtocolError, UsageError
from headrace.cli.log_records import decoder_for
from headrace.cli.record_json import headers_to_json
from headrace.log.recovery import only_zeros
from headrace.wire.kafka.record_batch import HEADER_BYTES, BatchHeader, crc_of, read_header
from headrace.wire.kafka.records import read_records

Row = dict[str, Any]

_FILLED_AHEAD = "__namespace-0"
"""The one log that has zeros written ahead of its end."""
_SEGMENT = re.compile(r"(\d{20})(?:-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)\b")
_PROPERTY = re.compile("([^=:]*)[=:]?(.*)")
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEAD = Struct(">hI")
_SNAPSHOT_COUNT = Struct(">i")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_FIELDS = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "transaction_first_offset",
)


def rows_of(path: Path, *, with_records: bool) -> Iterator[Row]:
    """The rows of a file, by its name."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name one of its files, such as a .log")
    if not path.exists():
        raise UsageError(f"there is no file {path}")
    found = _SEGMENT.match(path.name)
    try:
        if found and found[2] in ("log", "checkpoint"):
            yield from _batches(path, with_records)
        elif found:
            yield from _BINARY[found[2]](path.read_bytes(), int(found[1]))
        elif path.name.endswith("-checkpoint"):
            yield from _checkpoint(path.read_text("utf-8"))
        elif path.name in ("partition.metadata", "meta.properties", ".kafka_cleanshutdown"):
            yield from _properties(path.read_text("utf-8"))
        else:
            raise UsageError(
                f"{path.name} is not a file of a log: .log, .index, .timeindex, .txnindex, "
                ".snapshot, a checkpoint, partition.metadata or meta.properties"
            )
    except OSError as error:
        raise HeadraceError(f"{path} can't be read: {error.strerror}") from error


def _batches(path: Path, with_records: bool) -> Iterator[Row]:
    size = os.path.getsize(path)
    if size == 0:
        return
    folder = path.absolute().parent.name
    decode = decoder_for(folder)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        position = 0
        while position < size:
            damage = _damage_at(mapped, position, size)
            if damage is not None:
                if folder == _FILLED_AHEAD and _are_zeros(mapped, position, size):
                    yield {"position": position, "unused_bytes": size - position}
                else:
                    yield {"position": position, "damage": damage}
                return
            header = read_header(mapped[position : position + HEADER_BYTES])
            end = position + header.size_bytes
            batch = mapped[position:end]
            row = _describe(header, position)
            row["crc_valid"] = crc_of(batch, 0, len(batch)) == header.crc
            if not row["crc_valid"]:
                row["damage"] = "the checksum does not match the bytes"
            if with_records and row["crc_valid"]:
                row["records"] = list(_records(header, batch, decode))
            yield row
            position = end


def _are_zeros(mapped: mmap.mmap, position: int, size: int) -> bool:
    """Behind the last edit of a NameNode that runs, or was killed."""
    return only_zeros(lambda at, length: mapped[at : at + length], position, size)


def _damage_at(mapped: mmap.mmap, position: int, size: int) -> str | None:
    left = size - position
    if left < HEADER_BYTES:
        return f"{left} bytes at the end are less than a batch header"
    header = read_header(mapped[position : position + HEADER_BYTES])
    if header.magic != 2:
        return f"no batch here: magic {header.magic} instead of 2, {left} bytes are left"
    if header.size_bytes < HEADER_BYTES:
        return f"a batch of {header.size_bytes} bytes can't be"
    if header.size_bytes > left:
        return f"the batch has {header.size_bytes} bytes, the file only {left} more"
    return None


def _describe(header: BatchHeader, position: int) -> Row:
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.partition_leader_epoch,
        "compression": header.compression.name.lower(),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _records(
    header: BatchHeader, batch: bytes, decode: Callable[[bytes | None, bytes | None, bool], Row]
) -> Iterator[Row]:
    try:
        for record in read_records(batch):
            row: Row = {"offset": record.offset, "timestamp": record.timestamp}
            row.update(decode(record.key, record.value, header.is_control))
            if record.headers:
                row["headers"] = headers_to_json(list(record.headers))
            yield row
    except ProtocolError as error:
        yield {"damage": str(error)}


def _offset_index(content: bytes, base_offset: int) -> Iterator[Row]:
    for number, (relative, position) in enumerate(_entries(_OFFSET_ENTRY, content)):
        if relative == 0 and (number > 0 or position == 0):
            # The rest is room that was reserved and not used.
            return
        yield {"offset": base_offset + relative, "position": position}
    yield from _leftover(_OFFSET_ENTRY, content)


def _time_index(content: bytes, base_offset: int) -> Iterator[Row]:
    for number, (timestamp, relative) in enumerate(_entries(_TIME_ENTRY, content)):
        if timestamp == 0 and (number > 0 or relative == 0):
            return
        yield {"timestamp": timestamp, "offset": base_offset + relative}
    yield from _leftover(_TIME_ENTRY, content)


def _transaction_index(content: bytes, _: int) -> Iterator[Row]:
    names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    for entry in _entries(_TRANSACTION_ENTRY, content):
        yield dict(zip(names, entry, strict=True))
    yield from _leftover(_TRANSACTION_ENTRY, content)


def _entries(entry: Struct, content: bytes) -> Iterator[tuple[Any, ...]]:
    return entry.iter_unpack(content[: len(content) // entry.size * entry.size])


def _leftover(entry: Struct, content: bytes) -> Iterator[Row]:
    left = len(content) % entry.size
    if left:
        yield {"damage": f"{left} bytes at the end are less than an entry of {entry.size}"}


def _snapshot(content: bytes, _: int) -> Iterator[Row]:
    """Producer state: version int16, crc uint32, count int32, entries of 46 bytes."""
    if len(content) < _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size:
        yield {"damage": "too short for a snapshot"}
        return
    version, crc = _SNAPSHOT_HEAD.unpack_from(content)
    body = content[_SNAPSHOT_HEAD.size :]
    if crc32c(body) != crc:
        yield {"damage": "the checksum does not match the bytes"}
        return
    if version != 1:
        yield {"damage": f"version {version} is not known"}
        return
    for entry in _entries(_SNAPSHOT_ENTRY, body[_SNAPSHOT_COUNT.size :]):
        yield dict(zip(_SNAPSHOT_FIELDS, entry, strict=True))


def _checkpoint(text: str) -> Iterator[Row]:
    """`version`, `count`, then lines of `topic partition offset` or `epoch start-offset`."""
    lines = text.split("\n")
    rows = [line.split() for line in lines[2:] if line]
    for fields in rows:
        if len(fields) == 3:
            yield {"topic": fields[0], "partition": int(fields[1]), "offset": int(fields[2])}
        elif len(fields) == 2:
            yield {"epoch": int(fields[0]), "start_offset": int(fields[1])}
        else:
            yield {"damage": f"not a checkpoint's line: {' '.join(fields)}"}
    announced = lines[1] if len(lines) > 1 else ""
    if announced != str(len(rows)):
        yield {"damage": f"{announced or 'no'} lines are announced, {len(rows)} are there"}


def _properties(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, value = _PROPERTY.fullmatch(line).groups()  # type: ignore[union-attr]
            yield {"key": key.strip(), "value": value.strip()}


_BINARY: dict[str, Callable[[bytes, int], Iterator[Row]]] = {
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _transaction_index,
    "snapshot": _snapshot,
}
