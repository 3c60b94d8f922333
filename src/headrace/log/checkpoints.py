"""The small text files of a log directory and of its partitions.

    recovery-point-offset-checkpoint, replication-offset-checkpoint, log-start-offset-checkpoint,
    cleaner-offset-checkpoint
        0                       version
        2                       number of lines
        orders 0 1200           topic, partition, offset
        orders 1 7
    leader-epoch-checkpoint     the same with "epoch start-offset"
    log-dirs-checkpoint         the same with ids of the node's log directories; where it has one
                                alone there is no such file
    partition.metadata          "version: 0" and "topic_id: <base64url, no padding>"
    meta.properties             version=1, cluster.id, node.id, directory.id
    .kafka_cleanshutdown        {"version":0,"brokerEpoch":-1}

Owns: these formats and their atomic writing (KAFKA-16541: fsynced, renamed, directory fsynced).
Must not know: what the numbers mean. A file that can't be understood raises CorruptionError.
"""

import json
from collections.abc import Iterable, Mapping

from headrace.base.errors import CorruptionError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.base.storage import Storage

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
LOG_DIRECTORIES = "log-dirs-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

VERSION = 0
DAMAGED_BITS_MAX = 12
TopicPartition = tuple[str, int]


def read_offsets(storage: Storage, path: str) -> dict[TopicPartition, int]:
    """Empty if there is no such file."""
    offsets: dict[TopicPartition, int] = {}
    for line in _read_lines(storage, path):
        fields = line.rsplit(" ", 2)
        if len(fields) != 3:
            raise CorruptionError(path, 0, f"not 'topic partition offset': {line!r}")
        partition, offset = _numbers(path, fields[1:])
        offsets[fields[0], partition] = offset
    return offsets


def offsets_content(offsets: Mapping[TopicPartition, int]) -> bytes:
    """What `write_offsets` writes."""
    lines = [f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())]
    return _content(lines)


def write_offsets(
    storage: Storage, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    storage.replace_file(path, offsets_content(offsets), sync=sync)


def read_epochs(storage: Storage, path: str) -> list[tuple[int, int]]:
    """Empty if there is no such file."""
    entries: list[tuple[int, int]] = []
    for line in _read_lines(storage, path):
        epoch, start_offset = _numbers(path, line.split(" "))
        if entries and (epoch <= entries[-1][0] or start_offset < entries[-1][1]):
            raise CorruptionError(path, 0, f"epochs out of order at {line!r}")
        entries.append((epoch, start_offset))
    return entries


def write_epochs(
    storage: Storage, path: str, entries: Iterable[tuple[int, int]], *, sync: bool = True
) -> None:
    storage.replace_file(path, epochs_content(entries), sync=sync)


def epochs_content(entries: Iterable[tuple[int, int]]) -> bytes:
    return _content([f"{epoch} {start}" for epoch, start in entries])


def read_directory_ids(storage: Storage, path: str) -> set[bytes]:
    """Empty if there is no such file."""
    try:
        return {uuid_bytes(line) for line in _read_lines(storage, path)}
    except ValueError:
        raise CorruptionError(path, 0, "not an id of a directory") from None


def write_directory_ids(storage: Storage, path: str, ids: Iterable[bytes]) -> None:
    _write_lines(storage, path, sorted(map(uuid_text, ids)))


def read_topic_id(storage: Storage, path: str) -> bytes | None:
    """None if there is no such file."""
    try:
        text = storage.read_file(path).decode("ascii")
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line)
        topic_id = uuid_bytes(fields["topic_id"])
        if fields["version"] == "0":
            return topic_id
    except FileNotFoundError:
        return None
    except (ValueError, KeyError):
        pass
    raise CorruptionError(path, 0, "not a partition.metadata file")


def is_damaged_copy(stored: bytes, topic_id: bytes) -> bool:
    """True for an id that is ours but for a few bits: two topics' ids differ in some sixty."""
    return (int.from_bytes(stored) ^ int.from_bytes(topic_id)).bit_count() <= DAMAGED_BITS_MAX


def write_topic_id(storage: Storage, path: str, topic_id: bytes, *, sync: bool = True) -> None:
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"
    storage.replace_file(path, text.encode(), sync=sync)


def read_meta_properties(storage: Storage, path: str) -> dict[str, str] | None:
    """None if there is no such file."""
    try:
        text = storage.read_file(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except ValueError:
        raise CorruptionError(path, 0, "not UTF-8") from None
    properties: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise CorruptionError(path, 0, f"not 'key=value': {line!r}")
        properties[key.strip()] = value.strip().replace("\\=", "=").replace("\\:", ":")
    if properties.get("version") != "1" or "node.id" not in properties:
        raise CorruptionError(path, 0, "no version=1 or no node.id")
    return properties


def write_meta_properties(
    storage: Storage, path: str, *, cluster_id: str, node_id: int, directory_id: str
) -> None:
    text = f"cluster.id={cluster_id}\ndirectory.id={directory_id}\nnode.id={node_id}\nversion=1\n"
    storage.replace_file(path, text.encode())


def read_clean_shutdown(storage: Storage, path: str) -> int | None:
    """The broker epoch of a clean stop (-1 if it doesn't say); None if the stop was not clean."""
    try:
        content = json.loads(storage.read_file(path))
        return int(content.get("brokerEpoch", -1))
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, TypeError):
        # The name alone says it; older brokers wrote an empty file.
        return -1


def write_clean_shutdown(storage: Storage, path: str, broker_epoch: int) -> None:
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    storage.replace_file(path, content.encode())


def _read_lines(storage: Storage, path: str) -> list[str]:
    try:
        text = storage.read_file(path).decode("utf-8")
    except FileNotFoundError:
        return []
    except ValueError:
        raise CorruptionError(path, 0, "not UTF-8") from None
    if not text.endswith("\n"):
        # Cut in the midst of a number it would be another number.
        raise CorruptionError(path, 0, "the last line has no end")
    lines = text.splitlines()
    if len(lines) < 2:
        raise CorruptionError(path, 0, "no version and count")
    version, count = _numbers(path, lines[:2])
    lines = [line for line in lines[2:] if line]
    if version != VERSION or count != len(lines):
        raise CorruptionError(path, 0, f"version {version}, {count} lines said, {len(lines)} there")
    return lines


def _write_lines(storage: Storage, path: str, lines: list[str], *, sync: bool = True) -> None:
    storage.replace_file(path, _content(lines), sync=sync)


def _content(lines: list[str]) -> bytes:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def _numbers(path: str, fields: list[str]) -> tuple[int, int]:
    try:
        first, second = fields
        return int(first), int(second)
    except ValueError:
        raise CorruptionError(path, 0, f"not two numbers: {fields!r}") from None
